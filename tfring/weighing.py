"""Ranks whose gradients count for more than others', since they come from more samples.

Where it is used a number is open for the time of a step (`weigh_by`). What it multiplies is the
loss, if that goes through the optimizer's `scale_loss`: it costs nothing there. Gradients that
come from elsewhere are multiplied themselves before they are reduced. Where it is not used
nothing is added to the graph.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from tfring.keras_hooks import overwritten_by_gradient

_open = threading.local()


@dataclass
class _Weighing:
    """The weight of this rank in a step.

    Attributes:
        weight: A scalar.
        optimizers: Ids of those that have multiplied their losses.
    """

    weight: tf.Tensor
    optimizers: set[int] = field(default_factory=set)


@contextlib.contextmanager
def weigh_by(weight: tf.Tensor) -> Iterator[None]:
    """While it is open gradients are multiplied by a number before they are reduced."""
    before = _weighing()
    _open.weighing = _Weighing(weight)
    try:
        yield
    finally:
        _open.weighing = before


def weigh_loss_of(optimizer: Any, loss: Any) -> Any:
    """The loss that gradients for an optimizer are taken of."""
    weighing = _weighing()
    if weighing is None:
        return loss
    weighing.optimizers.add(id(optimizer))
    return loss * tf.cast(weighing.weight, loss.dtype)


def weigh_gradients(
    variables: Sequence[Any], gradients: Sequence[Any], optimizer: Any = None
) -> list[Any]:
    """Gradients of this rank as they count; as they are if their loss has been weighted.

    Args:
        variables: One for each gradient.
        gradients: Tensors, `tf.IndexedSlices` and None.
        optimizer: The one that is to apply them; None: it is not known.
    """
    weighing = _weighing()
    if weighing is None:
        return list(gradients)
    done = bool(weighing.optimizers) if optimizer is None else id(optimizer) in weighing.optimizers
    return [
        gradient
        if done or gradient is None or overwritten_by_gradient(variable)
        else _multiplied(gradient, weighing.weight)
        for variable, gradient in zip(variables, gradients, strict=True)
    ]


def _multiplied(gradient: Any, weight: tf.Tensor) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        values = _multiplied(gradient.values, weight)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient * tf.cast(weight, gradient.dtype)


def _weighing() -> _Weighing | None:
    return getattr(_open, "weighing", None)
