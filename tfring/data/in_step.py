"""Iterating so that all ranks stop together, whatever each of them has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np

from tfring import arrays, engine
from tfring.reduce_op import ReduceOp

Batch = TypeVar("Batch")

_END = object()


def in_step(batches: Iterable[Batch], *, name: str = "in_step") -> Iterator[Batch]:
    """Yields batches as long as every rank has one.

    For training loops of one's own over data whose length is not known beforehand. Before
    each batch the ranks agree that all have one, which costs one small allreduce; what a
    rank has beyond that is left over. `fit` needs no such thing: see
    `tfring.callbacks.BroadcastInitialVariables`.

    Example:

    >>> for x, y in tfring.data.in_step(dataset):
    ...     train_step(x, y)

    Args:
        batches: A dataset, generator or other iterable. Every rank must iterate over its own.
        name: The same on every rank. Two such loops that run nested need two names.

    Yields:
        What `batches` yields.

    Raises:
        PeerLostError: Another rank has ended.
    """
    if engine.size() == 1:
        yield from batches
        return
    iterator = iter(batches)
    while True:
        batch = next(iterator, _END)
        here = np.array([batch is not _END], np.int32)
        if not arrays.allreduce_arrays([here], op=ReduceOp.MIN, name=name)[0][0]:
            return
        yield batch  # type: ignore[misc]
