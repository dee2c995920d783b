"""This rank's part of a data set that all ranks have."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfring import engine
from tfring.data.partition import (
    check_partition,
    padding_index,
    shard_indices,
    shard_length,
)


def shard(
    dataset: tf.data.Dataset,
    *,
    remainder: str = "pad",
    rank: int | None = None,
    size: int | None = None,
) -> tf.data.Dataset:
    """This rank's part of a `tf.data.Dataset` that yields the same elements on every rank.

    An element is whatever the dataset yields: a sample, or a batch once it is batched.
    Sharding samples and then batching divides more evenly; sharding batches keeps each
    batch as it is.

    Train with "pad" (the default) or "drop": all ranks take equally many steps, so that
    none waits for gradients which never come. Validate with "keep": every sample counts
    exactly once, and since `evaluate` exchanges nothing until it is done, ranks may have
    different numbers of batches. With `AverageMetrics` the results are those of one process
    over all data.

    The order must be the same on every rank. Shard before you shuffle, or give `shuffle` a
    seed, and TensorFlow one seed on every rank (`tfring.set_seed`).

    Example:

    >>> train = tfring.data.shard(train).shuffle(10_000).batch(32)
    >>> validation = tfring.data.shard(validation, remainder="keep").batch(32)

    Args:
        dataset: Of any structure. Its length may be known, infinite, or unknown (it is then
            divided on the fly, and its parts have an unknown length too).
        remainder: What to do when the length is no multiple of the number of ranks. "pad":
            complete the last round with elements from it, nothing is lost; "drop": leave
            the last round out; "keep": leave it incomplete.
        rank, size: This rank and the number of ranks; by default those of the job.

    Returns:
        A dataset of the same structure.

    Raises:
        ValueError: An argument is none of the above, or so few elements would be dropped
            that nothing is left.
        TypeError: `dataset` is no `tf.data.Dataset`.
        NotInitializedError: Before `tfring.init()`, without `rank` and `size`.
    """
    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(
            f"dataset: expected a tf.data.Dataset, received {type(dataset).__name__}; use "
            "tfring.data.shard_arrays for arrays"
        )
    rank, size = _place(rank, size)
    check_partition(rank, size, remainder)
    total = int(dataset.cardinality())
    if size == 1:
        return dataset
    if total == tf.data.INFINITE_CARDINALITY or remainder == "keep":
        return dataset.shard(size, rank)
    if total == tf.data.UNKNOWN_CARDINALITY:
        return _shard_on_the_fly(dataset, rank, size, remainder)
    _require_some(total, size, remainder)
    if remainder == "drop":
        return dataset.take(total - total % size).shard(size, rank)
    extra = padding_index(total, rank, size)
    if extra is None:
        return dataset.shard(size, rank)
    # One pass over the dataset, as on the other ranks: a second one for the padding would
    # advance the state of a shuffle and so part this rank's order from that of the others.
    own = dataset.enumerate().filter(lambda i, _: (i % size == rank) | (i == extra))
    length = shard_length(total, rank, size, remainder)
    return own.map(_second).apply(tf.data.experimental.assert_cardinality(length))


def shard_arrays(
    *arrays: Any,
    remainder: str = "pad",
    rank: int | None = None,
    size: int | None = None,
) -> Any:
    """This rank's rows of arrays that all ranks have.

    Example:

    >>> x, y = tfring.data.shard_arrays(x, y)
    >>> x_val, y_val = tfring.data.shard_arrays(x_val, y_val, remainder="keep")

    Args:
        *arrays: NumPy arrays, or what converts to them, with equally many rows.
        remainder, rank, size: As for `shard`.

    Returns:
        A tuple of arrays; of one array, just it.

    Raises:
        ValueError: As `shard`, or the arrays have different numbers of rows.
        NotInitializedError: Before `tfring.init()`, without `rank` and `size`.
    """
    if not arrays:
        raise ValueError("shard_arrays: expected at least one array")
    converted = [np.asarray(array) for array in arrays]
    lengths = [len(array) if array.ndim else None for array in converted]
    if len(set(lengths)) > 1 or lengths[0] is None:
        raise ValueError(f"expected arrays with equally many rows, received {lengths}")
    rank, size = _place(rank, size)
    _require_some(lengths[0], size, remainder)
    rows = shard_indices(lengths[0], rank, size, remainder)
    parts = tuple(array[rows] for array in converted)
    return parts if len(parts) > 1 else parts[0]


def _place(rank: int | None, size: int | None) -> tuple[int, int]:
    if (rank is None) != (size is None):
        raise ValueError(f"expected both rank and size, or neither; received {rank}, {size}")
    if rank is None or size is None:
        return engine.rank(), engine.size()
    return rank, size


def _require_some(total: int, size: int, remainder: str) -> None:
    if remainder == "drop" and 0 < total < size:
        raise ValueError(
            f"{total} elements for {size} ranks: remainder='drop' leaves nothing; use 'pad', "
            "or shard samples and not batches"
        )


def _shard_on_the_fly(
    dataset: tf.data.Dataset, rank: int, size: int, remainder: str
) -> tf.data.Dataset:
    """Cuts the stream into rounds of `size` elements and takes one of each.

    Of an incomplete last round a rank takes, counted cyclically, the element at its place.
    """

    def pick(*window: Any) -> tf.data.Dataset:
        round_of_all = tf.data.Dataset.zip(window[0] if len(window) == 1 else window)
        return round_of_all.repeat().skip(rank).take(1)

    return dataset.window(size, drop_remainder=remainder == "drop").flat_map(pick)


def _second(_: Any, element: Any) -> Any:
    return element
