"""Parts of datasets and arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfring.data import shard, shard_arrays, shard_indices

REMAINDERS = ["pad", "drop", "keep"]


def numbers(dataset: tf.data.Dataset) -> list[int]:
    return [int(element) for element in dataset.as_numpy_iterator()]


def of_unknown_length(dataset: tf.data.Dataset) -> tf.data.Dataset:
    unknown = dataset.filter(lambda *_: True)
    assert unknown.cardinality() == tf.data.UNKNOWN_CARDINALITY
    return unknown


@pytest.mark.parametrize("remainder", REMAINDERS)
@pytest.mark.parametrize(("total", "size"), [(10, 1), (10, 2), (10, 3), (10, 4), (12, 4), (7, 5)])
def test_known_length(total: int, size: int, remainder: str) -> None:
    for rank in range(size):
        part = shard(tf.data.Dataset.range(total), remainder=remainder, rank=rank, size=size)
        expected = shard_indices(total, rank, size, remainder).tolist()
        assert int(part.cardinality()) == len(expected)
        assert numbers(part) == numbers(part) == expected


@pytest.mark.parametrize("remainder", REMAINDERS)
@pytest.mark.parametrize(("total", "size"), [(10, 3), (12, 4), (7, 5), (2, 3)])
def test_unknown_length_gives_the_same(total: int, size: int, remainder: str) -> None:
    for rank in range(size):
        stream = of_unknown_length(tf.data.Dataset.range(total))
        part = shard(stream, remainder=remainder, rank=rank, size=size)
        assert numbers(part) == shard_indices(total, rank, size, remainder).tolist()


def test_infinite_length() -> None:
    part = shard(tf.data.Dataset.range(5).repeat(), rank=1, size=2)
    assert part.cardinality() == tf.data.INFINITE_CARDINALITY
    assert numbers(part.take(5)) == [1, 3, 0, 2, 4]


def structures() -> dict[str, Any]:
    x = np.arange(21).reshape(7, 3)
    ragged = tf.ragged.range(tf.range(7))
    sparse = tf.sparse.from_dense(np.eye(7))
    return {
        "tuple": (x, x[:, 0]),
        "dict": {"image": x, "label": x[:, 0]},
        "nested": ({"a": x, "b": x}, x[:, 0], np.ones(7)),
        "text": np.array([f"file {i}" for i in range(7)]),
        "ragged": (ragged, x),
        "sparse": (sparse, x),
    }


@pytest.mark.parametrize("kind", structures())
@pytest.mark.parametrize("known", [True, False])
def test_any_structure(kind: str, known: bool) -> None:
    dataset = tf.data.Dataset.from_tensor_slices(structures()[kind])
    expected = [tf.nest.map_structure(str, element) for element in dataset]
    source = dataset if known else of_unknown_length(dataset)
    for rank in range(3):
        part = shard(source, rank=rank, size=3)
        assert tf.nest.map_structure(lambda s: s.dtype, part.element_spec) == (
            tf.nest.map_structure(lambda s: s.dtype, dataset.element_spec)
        )
        got = [tf.nest.map_structure(str, element) for element in part]
        assert got == [expected[i] for i in shard_indices(7, rank, 3, "pad")]


def test_batches_are_elements_too() -> None:
    batched = tf.data.Dataset.range(10).batch(4)
    parts = [shard(batched, rank=rank, size=2) for rank in range(2)]
    assert [[batch.tolist() for batch in part.as_numpy_iterator()] for part in parts] == [
        [[0, 1, 2, 3], [8, 9]],
        [[4, 5, 6, 7], [8, 9]],
    ]


@pytest.mark.parametrize("remainder", REMAINDERS)
def test_ranks_agree_on_the_order_of_every_epoch(remainder: str) -> None:
    """Each part is a dataset of its own, shuffled anew in each epoch; none may get ahead."""

    def epochs(rank: int) -> list[list[int]]:
        tf.random.set_seed(7)
        shuffled = tf.data.Dataset.range(10).shuffle(10, seed=3)
        part = shard(shuffled, remainder=remainder, rank=rank, size=4)
        return [numbers(part) for _ in range(3)]

    by_rank = [epochs(rank) for rank in range(4)]
    for epoch in range(3):
        seen = [n for rank in range(4) for n in by_rank[rank][epoch]]
        assert len(set(seen)) == (8 if remainder == "drop" else 10)
    assert by_rank[0][0] != by_rank[0][1]


def test_arrays() -> None:
    x, y = np.arange(20).reshape(10, 2), np.arange(10)
    for rank in range(4):
        x_part, y_part = shard_arrays(x, y, rank=rank, size=4)
        assert (x_part == x[shard_indices(10, rank, 4)]).all()
        assert (y_part == y[shard_indices(10, rank, 4)]).all()
    assert shard_arrays(y, remainder="keep", rank=3, size=4).tolist() == [3, 7]
    assert shard_arrays([1, 2, 3], rank=0, size=1).tolist() == [1, 2, 3]


def test_mistakes_are_named() -> None:
    with pytest.raises(TypeError, match=r"received ndarray; use tfring.data.shard_arrays"):
        shard(np.zeros(3), rank=0, size=2)
    with pytest.raises(ValueError, match=r"equally many rows, received \[3, 4\]"):
        shard_arrays(np.zeros(3), np.zeros(4), rank=0, size=2)
    with pytest.raises(ValueError, match="equally many rows"):
        shard_arrays(np.float32(3), rank=0, size=2)
    with pytest.raises(ValueError, match="at least one array"):
        shard_arrays(rank=0, size=2)
    with pytest.raises(ValueError, match="3 elements for 4 ranks: remainder='drop' leaves nothing"):
        shard(tf.data.Dataset.range(3), remainder="drop", rank=0, size=4)
    with pytest.raises(ValueError, match="both rank and size"):
        shard(tf.data.Dataset.range(3), rank=0)
    with pytest.raises(ValueError, match="received 'wrap'"):
        shard(tf.data.Dataset.range(3), remainder="wrap", rank=0, size=2)
