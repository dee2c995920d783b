"""Python objects over real processes."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tfring import engine
from tfring.errors import InvalidArgumentError, TfringError
from tfring.objects import allgather_object, broadcast_object


def every_kind_of_object():
    rank, size = engine.rank(), engine.size()
    for root in range(size):
        mine = {"rank": rank, "list": [1, "two", None], "array": np.arange(rank + 1)}
        got = broadcast_object(mine, root)
        assert got["rank"] == root
        assert got["array"].tolist() == list(range(root + 1))
        assert (got is mine) == (rank == root)
    offset = 10 * rank
    shifted = broadcast_object(lambda x: x + offset, size - 1, name="closure")
    assert shifted(1) == 1 + 10 * (size - 1)
    # What others than the root give does not matter.
    assert broadcast_object("root" if rank == 0 else threading.Lock()) == "root"
    assert broadcast_object(None) is None
    assert allgather_object(None) == [None] * size
    assert allgather_object("x" * 1000 * rank) == ["x" * 1000 * other for other in range(size)]
    large = broadcast_object(np.arange(3_000_000) if rank == 0 else None)
    large[-1] = 0  # a copy of one's own, writable
    assert int(large.sum()) == sum(range(2_999_999))


def test_every_kind_of_object(warm_ranks, ranks):
    warm_ranks(every_kind_of_object)


def objects_that_do_not_pickle():
    rank, size = engine.rank(), engine.size()
    with pytest.raises(TfringError, match="rank 0 cannot pickle its object: lock: "):
        broadcast_object(threading.Lock())
    last = threading.Lock() if rank == size - 1 else rank
    with pytest.raises(TfringError, match=f"rank {size - 1} cannot pickle its object: lock: "):
        allgather_object(last)
    # All ranks are in step still.
    assert allgather_object(rank) == list(range(size))


def test_objects_that_do_not_pickle(warm_ranks):
    warm_ranks(objects_that_do_not_pickle)


def roots_outside_the_job():
    for root in (-1, engine.size()):
        with pytest.raises(InvalidArgumentError, match=f"root_rank: .* received {root}"):
            broadcast_object(1, root)


def test_roots_outside_the_job(warm_ranks):
    warm_ranks(roots_outside_the_job)
