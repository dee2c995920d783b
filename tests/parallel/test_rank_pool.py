"""The harness itself: results come back in rank order, failures name the rank."""

from __future__ import annotations

import os
import signal

import pytest

import tfring
from harness.rank_pool import RanksFailed


def rank_and_size(offset: int) -> tuple[int, int, int]:
    return tfring.rank(), tfring.size(), offset


def process_id() -> int:
    return os.getpid()


def fail_on_rank_1() -> None:
    if tfring.rank() == 1:
        raise ValueError("told to fail")


def die_on_rank_1() -> str:
    if tfring.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


def never_return_on_rank_1() -> None:
    if tfring.rank() == 1:
        signal.pause()


def test_results_come_in_rank_order(warm_ranks, ranks: int) -> None:
    assert warm_ranks(rank_and_size, 7) == [(rank, ranks, 7) for rank in range(ranks)]


def test_warm_ranks_are_reused_and_fresh_ones_are_not(warm_ranks, run_ranks) -> None:
    first = warm_ranks(process_id)
    assert warm_ranks(process_id) == first
    assert not set(run_ranks(process_id)) & set(first)


def test_a_failure_carries_the_traceback(run_ranks, ranks: int) -> None:
    if ranks < 2:
        pytest.skip("needs two ranks")
    with pytest.raises(RanksFailed, match=r"(?s)rank 0: .*rank 1: error.*told to fail"):
        run_ranks(fail_on_rank_1)


def test_a_rank_may_die_when_the_test_says_so(run_ranks) -> None:
    assert run_ranks(die_on_rank_1, np=2, bare=True, may_die=(1,)) == ["alive", None]
    with pytest.raises(RanksFailed, match="rank 1: died"):
        run_ranks(die_on_rank_1, np=2, bare=True)


def test_a_rank_that_hangs_is_reported(run_ranks) -> None:
    with pytest.raises(RanksFailed, match="rank 1: no answer"):
        run_ranks(never_return_on_rank_1, np=2, bare=True, timeout_s=5.0)
