"""`ObjectState`: everybody goes back to the last commit of whoever has made most."""

from __future__ import annotations

import dataclasses
import threading

import pytest

import tfring
from tfring import engine, native
from tfring.config import Config
from tfring.errors import InvalidArgumentError, MembershipChangedError, NotInitializedError


class Counter:
    """Something that can't be pickled but tells its state."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0

    def state_dict(self) -> dict[str, int]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.count = state["count"]


def furthest() -> tuple[int, str, int]:
    state = tfring.elastic.ObjectState(step=0, note="none", counter=Counter())
    state.sync()
    rank, last = tfring.rank(), tfring.size() - 1
    for step in range(1, 2 + rank):  # the last rank makes most commits
        state.step, state.note, state.counter.count = step, f"rank {rank}", 10 * step
        state.commit()
    state.step, state.note = 1000, "not committed"
    if rank == 0:
        state.restore()
        assert (state.step, state.note, state.counter.count) == (1, "rank 0", 10)
    state.sync()
    assert state.note == f"rank {last}"
    # One that has just come has made none, whatever it was made with.
    if rank == 0:
        state = tfring.elastic.ObjectState(step=77, note="new", counter=Counter())
    state.sync()
    return state.step, state.note, state.counter.count


def test_all_get_the_last_commit_of_the_furthest(warm_ranks, ranks: int) -> None:
    assert set(warm_ranks(furthest)) == {(ranks, f"rank {ranks - 1}", 10 * ranks)}


def test_attributes_that_can_not_be(warm_ranks) -> None:
    with pytest.raises(InvalidArgumentError, match="'commit'"):
        tfring.elastic.ObjectState(commit=1)
    with pytest.raises(TypeError, match="lock"):
        tfring.elastic.ObjectState(lock=threading.Lock())


def check_host_updates() -> None:
    state = tfring.elastic.ObjectState(step=0)
    state.check_host_updates()  # nobody comes or goes before init
    place = Config.from_environment(rank=0, size=1, elastic=True, worker_id="w")
    engine.init(place)
    with engine.rehearse(), pytest.raises(NotInitializedError, match="rehearsal"):
        state.check_host_updates()
    engine.join(dataclasses.replace(place, generation=3))
    state.check_host_updates()
    native.load().tfr_interrupt(2, b"an earlier one")
    state.check_host_updates()
    native.load().tfr_interrupt(3, b"w7 joins")
    with pytest.raises(MembershipChangedError, match="w7 joins"):
        state.check_host_updates()
    with pytest.raises(MembershipChangedError, match="w7 joins"):
        state.commit()
    engine.shutdown()


def test_a_change_is_heard_of_between_operations(run_ranks) -> None:
    run_ranks(check_host_updates, np=1, bare=True, init=False)
