"""Which elements belong to which rank."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tfring.data.partition import padding_index, shard_indices, shard_length

CASES = list(itertools.product([0, 1, 2, 3, 7, 10, 16, 1797], [1, 2, 3, 4, 7, 16]))


@pytest.mark.parametrize(("total", "size"), CASES)
@pytest.mark.parametrize("remainder", ["pad", "drop", "keep"])
def test_lengths_are_those_of_the_indices(total: int, size: int, remainder: str) -> None:
    for rank in range(size):
        indices = shard_indices(total, rank, size, remainder)
        assert len(indices) == shard_length(total, rank, size, remainder)
        assert indices.dtype == np.int64
        assert (np.diff(indices) > 0).all()


@pytest.mark.parametrize(("total", "size"), CASES)
def test_keep_gives_every_element_to_one_rank(total: int, size: int) -> None:
    shards = [shard_indices(total, rank, size, "keep") for rank in range(size)]
    assert sorted(np.concatenate(shards)) == list(range(total))
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


@pytest.mark.parametrize(("total", "size"), CASES)
def test_pad_loses_none_and_gives_all_ranks_equally_many(total: int, size: int) -> None:
    shards = [shard_indices(total, rank, size, "pad") for rank in range(size)]
    assert set(np.concatenate(shards)) == set(range(total))
    assert {len(shard) for shard in shards} == {-(-total // size)}
    assert sum(map(len, shards)) - total < size


@pytest.mark.parametrize(("total", "size"), CASES)
def test_drop_loses_fewer_than_there_are_ranks(total: int, size: int) -> None:
    shards = [shard_indices(total, rank, size, "drop") for rank in range(size)]
    everything = np.concatenate(shards)
    assert len(set(everything)) == len(everything) == total - total % size
    assert {len(shard) for shard in shards} == {total // size}


def test_padding_spreads_over_the_last_round() -> None:
    assert [padding_index(10, rank, 4) for rank in range(4)] == [None, None, 8, 9]
    assert [padding_index(1, rank, 3) for rank in range(3)] == [None, 0, 0]
    assert padding_index(8, 3, 4) is None


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected one of .*'keep'.*received 'wrap'"):
        shard_indices(10, 0, 2, "wrap")
    with pytest.raises(ValueError, match="received rank 2 of size 2"):
        shard_length(10, 2, 2)
