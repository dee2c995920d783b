"""Batches from the indices of their samples, for all kinds of sources."""

from __future__ import annotations

import os
import types
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

from tfring.errors import InvalidArgumentError

MakeBatch = Callable[[tf.Tensor], Any]
PerSample = Callable[..., Any] | None

# That ask an object of the user's for samples.
_THREADS = 16


def batches_of(source: Any, samples: int, load: PerSample, augment: PerSample) -> MakeBatch:
    """A function from int64 indices, shape (n,), to the batch of these samples, in a graph.

    Args:
        source: As for `Sampler.dataset`.
        samples: How many it must have.
        load, augment: For each sample.

    Raises:
        InvalidArgumentError: The source has another number of samples.
    """
    rows = _rows_by_index(source, samples) if _is_indexable(source) else _rows(source, samples)
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


def parts(source: Any) -> list[tuple[Any, Any]]:
    """The objects that a source consists of, each with its place in it."""
    if _is_array(source) or _is_indexable(source):
        return [((), source)]
    items = source.items() if isinstance(source, dict) else enumerate(source)
    return [((key, *place), leaf) for key, value in items for place, leaf in parts(value)]


def same_code(function: PerSample) -> Hashable:
    """Equal for functions that do the same, such as those that a `lambda` makes each time."""
    if not isinstance(function, types.FunctionType):
        return function
    try:
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:  # not assigned yet
        return function
    values = [*cells, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return (function.__code__, *map(id, values))


def _expect(rows: int, samples: int) -> None:
    if rows != samples:
        raise InvalidArgumentError(
            f"source: expected {samples} samples, as the sampler was told, received {rows}"
        )


def _is_indexable(source: Any) -> bool:
    """Whether samples come one by one, from an object of the user's."""
    if isinstance(source, list | tuple | dict) or hasattr(source, "__array__"):
        return False
    return hasattr(source, "__getitem__") and hasattr(source, "__len__")


def _is_array(source: Any) -> bool:
    """Lists of names or numbers are arrays; lists of arrays are structures."""
    if isinstance(source, list):
        return not any(hasattr(value, "__array__") for value in source)
    return not isinstance(source, tuple | dict) and not _is_indexable(source)


def _as_tensors(source: Any) -> Any:
    if _is_array(source):
        if isinstance(source, list) and source and isinstance(source[0], str | os.PathLike):
            return tf.constant([os.fspath(name) for name in source])
        return tf.convert_to_tensor(np.asarray(source) if isinstance(source, list) else source)
    if isinstance(source, dict):
        return {key: _as_tensors(value) for key, value in source.items()}
    # `tf.data` would stack what is in a list.
    return tuple(map(_as_tensors, source))


def _rows(source: Any, samples: int) -> MakeBatch:
    arrays = _as_tensors(source)
    for array in tf.nest.flatten(arrays):
        _expect(int(array.shape[0]) if array.shape.rank else 0, samples)
    return lambda indices: tf.nest.map_structure(lambda array: tf.gather(array, indices), arrays)


def _rows_by_index(source: Any, samples: int) -> MakeBatch:
    _expect(len(source), samples)
    first = tf.nest.map_structure(np.asarray, source[0])
    leaves = tf.nest.flatten(first)
    kinds = [tf.as_dtype(value.dtype) for value in leaves]

    # TensorFlow's own threads are as many as there are cores, too few to wait for files.
    threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="tfring-samples")

    def read_some(indices: np.ndarray) -> list[list[Any]]:
        return [tf.nest.flatten(source[int(index)]) for index in indices]

    def read(indices: np.ndarray) -> list[np.ndarray]:
        some = np.array_split(indices, min(_THREADS, len(indices)))
        rows = [row for part in threads.map(read_some, some) for row in part]
        return [
            np.stack([np.asarray(row[place], kind.as_numpy_dtype) for row in rows])
            for place, kind in enumerate(kinds)
        ]

    def make(indices: tf.Tensor) -> Any:
        values = tf.numpy_function(read, [indices], kinds)
        for value, leaf in zip(values, leaves, strict=True):
            value.set_shape([None, *leaf.shape])
        return tf.nest.pack_sequence_as(first, values)

    return make
