"""Alignment of clocks from questions and answers."""

from __future__ import annotations

import random

import pytest

from tfring.monitoring.timeline.clock import SAME_CLOCK, Answer, align, by_wall_clock

SECOND = 1_000_000_000


def ask(asked: int, offset: int, there: int, back: int) -> Answer:
    """Rank 0's clock shows `offset` more."""
    return Answer(asked, asked + there + offset, asked + there + back)


def test_one_answer() -> None:
    alignment = align([ask(1000, 500, 30, 10)])
    assert alignment.uncertainty == 20
    assert abs(alignment(1000) - 1500) <= 20
    # The same everywhere: there is nothing to interpolate.
    assert alignment(0) - alignment(5000) == -5000


def test_the_quickest_answer_of_a_burst_counts() -> None:
    answers = [ask(0, 500, 9000, 100), ask(10_000, 500, 11, 9), ask(20_000, 500, 10, 4000)]
    alignment = align(answers)
    assert alignment.times == (10_010,)
    assert alignment.offsets == (501,)
    assert alignment.uncertainty == 10


@pytest.mark.parametrize("seed", range(5))
def test_drift_is_interpolated_within_the_uncertainty(seed: int) -> None:
    chance = random.Random(seed)

    def offset(time: int) -> int:
        return 7 * SECOND + time // 20_000  # 50 parts in a million

    answers = []
    for second in range(100):
        for exchange in range(4):
            asked = second * SECOND + exchange * 200_000
            there, back = (chance.randrange(5_000, 100_000) for _ in range(2))
            answers.append(ask(asked, offset(asked), there, back))
    alignment = align(answers)
    assert alignment.uncertainty is not None and alignment.uncertainty <= 100_000
    for time in range(alignment.times[0], alignment.times[-1], SECOND // 3):
        assert abs(alignment(time) - time - offset(time)) <= alignment.uncertainty + 60


def test_answers_of_a_busy_time_are_left_out() -> None:
    answers = [ask(0, 100, 10, 10), ask(SECOND, 100, 90_000, 10), ask(2 * SECOND, 100, 10, 12)]
    alignment = align(answers)
    assert len(alignment.times) == 2
    assert alignment.uncertainty == 11


def test_without_answers() -> None:
    assert SAME_CLOCK(123) == 123
    alignment = by_wall_clock(begin=1000, begin_unix=50_000, zero=7000, zero_unix=50_100)
    assert alignment.uncertainty is None
    assert alignment(1000) == 6900
