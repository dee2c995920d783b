"""Batches that have been taken from an iterator, as an iterator again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


class Refeed:
    """Makes `tf.data` iterators over given batches.

    They have the type of the iterator that the batches came from, unknown dimensions
    included, so a `tf.function` that has been traced for one takes the other.

    Args:
        element_spec: That of the original iterator.
    """

    def __init__(self, element_spec: Any) -> None:
        self._dataset_of = tf.function(
            tf.data.Dataset.from_tensors, input_signature=[element_spec], autograph=False
        )

    def iterator(self, batches: Sequence[Any]) -> Any:
        """An iterator over the batches, of which there must be at least one."""
        first, *others = [self._dataset_of(batch) for batch in batches]
        for other in others:
            first = first.concatenate(other)
        return iter(first)
