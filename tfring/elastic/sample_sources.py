"""Batches from the indices of their samples, for all kinds of sources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfring.errors import InvalidArgumentError

MakeBatch = Callable[[tf.Tensor], Any]
PerSample = Callable[..., Any] | None


def batches_of(source: Any, samples: int, load: PerSample, augment: PerSample) -> MakeBatch:
    """A function from int64 indices, shape (n,), to the batch of these samples, in a graph.

    Args:
        source: As for `Sampler.dataset`.
        samples: How many it must have.
        load, augment: For each sample.

    Raises:
        InvalidArgumentError: The source has another number of samples.
    """
    if _is_indexable(source):
        _expect(len(source), samples)
        rows = _rows_by_index(source)
    else:
        arrays = tf.nest.map_structure(tf.convert_to_tensor, _with_tuples(source))
        for array in tf.nest.flatten(arrays):
            _expect(int(array.shape[0]) if array.shape.rank else 0, samples)
        rows = lambda indices: tf.nest.map_structure(  # noqa: E731
            lambda array: tf.gather(array, indices), arrays
        )
    steps = [step for step in (load, augment) if step is not None]
    if not steps:
        return rows

    def make(indices: tf.Tensor) -> Any:
        dataset = tf.data.Dataset.from_tensor_slices(rows(indices))
        for step in steps:
            dataset = dataset.map(step, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        count = tf.shape(indices, tf.int64)[0]
        return dataset.batch(count).get_single_element()

    return make


def _expect(rows: int, samples: int) -> None:
    if rows != samples:
        raise InvalidArgumentError(
            f"source: expected {samples} samples, as the sampler was told, received {rows}"
        )


def _is_indexable(source: Any) -> bool:
    """Whether samples come one by one, from an object of the user's."""
    if isinstance(source, list | tuple | dict | np.ndarray) or tf.is_tensor(source):
        return False
    return hasattr(source, "__getitem__") and hasattr(source, "__len__")


def _with_tuples(source: Any) -> Any:
    """The structure of arrays: a list of names or numbers is an array."""
    if isinstance(source, dict):
        return {key: _with_tuples(value) for key, value in source.items()}
    if isinstance(source, tuple):
        return tuple(map(_with_tuples, source))
    return source


def _rows_by_index(source: Any) -> MakeBatch:
    first = tf.nest.map_structure(np.asarray, source[0])
    types = [tf.as_dtype(value.dtype) for value in tf.nest.flatten(first)]
    shapes = [value.shape for value in tf.nest.flatten(first)]

    def read(indices: np.ndarray) -> list[np.ndarray]:
        rows = [tf.nest.flatten(source[int(index)]) for index in indices]
        return [
            np.stack([np.asarray(row[place], kind.as_numpy_dtype) for row in rows])
            for place, kind in enumerate(types)
        ]

    def make(indices: tf.Tensor) -> Any:
        values = tf.numpy_function(read, [indices], types)
        for value, shape in zip(values, shapes, strict=True):
            value.set_shape([None, *shape])
        return tf.nest.pack_sequence_as(first, values)

    return make
