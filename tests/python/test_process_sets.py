from __future__ import annotations

from collections.abc import Iterator

import pytest

import tfring
from tfring.process_sets import ProcessSet


@pytest.fixture
def initialized() -> Iterator[None]:
    tfring.init()
    yield
    tfring.shutdown()


def test_ranks_are_sorted() -> None:
    assert ProcessSet([3, 1, 2]).ranks == (1, 2, 3)
    assert ProcessSet(range(0, 6, 2)).size() == 3


@pytest.mark.parametrize("ranks", [[], [1, 1], [-1, 0]])
def test_impossible_sets(ranks: list[int]) -> None:
    with pytest.raises(ValueError, match="at least one rank and each once"):
        ProcessSet(ranks)


@pytest.mark.usefixtures("initialized")
def test_the_set_of_all() -> None:
    everyone = tfring.global_process_set
    assert everyone.process_set_id == 0
    assert (everyone.ranks, everyone.size(), everyone.rank()) == ((0,), 1, 0)
    assert everyone.included()
    assert tfring.add_process_set(everyone) is everyone
    with pytest.raises(ValueError, match="can't be removed"):
        tfring.remove_process_set(everyone)


@pytest.mark.usefixtures("initialized")
def test_adding_and_removing() -> None:
    mine = tfring.ProcessSet([0])
    with pytest.raises(ValueError, match="use add_process_set first"):
        mine.process_set_id
    assert tfring.add_process_set(mine) is mine
    assert tfring.add_process_set([0]).process_set_id == mine.process_set_id
    assert tfring.allreduce(1.0, process_set=mine) == 1.0
    tfring.remove_process_set(mine)
    with pytest.raises(ValueError, match="use add_process_set first"):
        tfring.allreduce(1.0, process_set=mine)


@pytest.mark.usefixtures("initialized")
def test_ranks_that_do_not_exist() -> None:
    with pytest.raises(tfring.TfringError, match="1"):
        tfring.add_process_set([0, 1])


def test_before_init() -> None:
    with pytest.raises(tfring.errors.NotInitializedError):
        tfring.add_process_set([0])
