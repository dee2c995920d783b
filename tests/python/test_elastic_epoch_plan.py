"""How epochs are cut into steps, and steps into shares."""

from __future__ import annotations

import itertools
import random

import pytest

from tfring.elastic.epoch_plan import EpochPlan, share

SIZES = range(1, 10)
PLANS = [EpochPlan(n, batch_size=b) for n in range(1, 50, 3) for b in (1, 2, 3, 7)] + [
    EpochPlan(n, global_batch_size=g) for n in range(1, 50, 3) for g in (1, 2, 5, 8, 16, 60)
]


@pytest.mark.parametrize("size", SIZES)
def test_shares_are_a_partition(size: int) -> None:
    for count in range(size, 40):
        shares = [share(100, count, rank, size) for rank in range(size)]
        taken = [index for first, last in shares for index in range(first, last)]
        assert taken == list(range(100, 100 + count))
        lengths = {last - first for first, last in shares}
        assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize("size", SIZES)
def test_too_few_samples_are_shared_evenly(size: int) -> None:
    for count in range(1, size):
        shares = [share(100, count, rank, size) for rank in range(size)]
        assert all(last == first + 1 for first, last in shares)
        taken = [first for first, _ in shares]
        copies = [taken.count(100 + index) for index in range(count)]
        assert max(copies) - min(copies) <= 1
        assert min(copies) >= 1
        plan = EpochPlan(count, batch_size=1)
        expected = [taken.count(first) for first in taken]
        assert [plan.copies(0, rank, size)[1] for rank in range(size)] == expected


def test_steps_take_what_is_left() -> None:
    """Whatever the number of workers is in each of them."""
    chance = random.Random(0)
    for plan in PLANS:
        for _ in range(5):
            position = 0
            while position < plan.samples:
                count = plan.step_samples(position, chance.choice(SIZES))
                assert 1 <= count <= plan.samples - position
                position += count
            assert position == plan.samples


def test_to_advance_is_to_take_steps() -> None:
    for plan, size in itertools.product(PLANS, SIZES):
        for begin in range(plan.samples):
            position, steps = begin, 0
            while position < plan.samples:
                assert plan.after(begin, steps, size) == position
                assert plan.advance(3, begin, steps, size) == (3, position)
                position += plan.step_samples(position, size)
                steps += 1
            assert plan.steps(begin, size) == steps
            assert plan.advance(3, begin, steps, size) == (4, 0)


def test_advancing_over_several_epochs() -> None:
    plan = EpochPlan(100, batch_size=8)
    assert plan.steps(0, 2) == 7  # six of 16, and what is left
    assert plan.advance(0, 0, 5, 2) == (0, 80)
    assert plan.advance(0, 80, 3, 2) == (1, 16)
    assert plan.advance(0, 80, 2 + 7 * 3 + 6, 2) == (4, 96)


def test_every_worker_has_samples_in_every_step() -> None:
    for plan, size in itertools.product(PLANS, SIZES):
        batch = plan.global_batch_size
        if plan.samples < size or (batch is not None and batch < 2 * size):
            continue
        position = 0
        while position < plan.samples:
            count = plan.step_samples(position, size)
            assert count >= size, (plan, size, position)
            position += count
        assert plan.copies(0, 0, size) == [1, 1, 1]


def test_a_fixed_global_batch_is_cut_the_same_for_any_number_of_workers() -> None:
    for plan in PLANS:
        if plan.global_batch_size is not None:
            for position in range(plan.samples):
                assert len({plan.step_samples(position, size) for size in SIZES}) == 1


def test_no_step_of_a_fixed_global_batch_is_smaller_than_half() -> None:
    for samples in range(16, 200):
        plan, position = EpochPlan(samples, global_batch_size=16), 0
        while position < samples:
            count = plan.step_samples(position, 3)
            assert 8 <= count <= 16
            position += count
