"""Each sample once, whatever happens to the workers; all in one process."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tfring.elastic.epoch_plan import EpochPlan, epoch_order, share


def test_an_order_is_a_permutation_of_its_own() -> None:
    orders = [epoch_order(1000, seed=1, epoch=epoch) for epoch in range(3)]
    for order in orders:
        assert sorted(order) == list(range(1000))
    assert not np.array_equal(orders[0], orders[1])
    assert not np.array_equal(orders[0], epoch_order(1000, seed=2, epoch=0))
    assert np.array_equal(orders[0], epoch_order(1000, seed=1, epoch=0))


def test_an_order_is_the_same_for_ever() -> None:
    """Workers may have different releases of NumPy, and a commit may be old."""
    assert epoch_order(10, seed=3, epoch=7).tolist() == [3, 1, 4, 7, 6, 0, 2, 8, 9, 5]


@pytest.mark.parametrize("size", range(1, 10))
def test_shares_are_a_partition(size: int) -> None:
    for count in range(size, 40):
        shares = [share(100, count, rank, size) for rank in range(size)]
        taken = [index for first, last in shares for index in range(first, last)]
        assert taken == list(range(100, 100 + count))
        lengths = {last - first for first, last in shares}
        assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize(
    "plan",
    [EpochPlan(n, batch_size=b) for n in (1, 7, 64, 65, 100) for b in (1, 3, 16)]
    + [EpochPlan(n, global_batch_size=g) for n in (1, 7, 64, 65, 100) for g in (1, 5, 16, 200)],
    ids=str,
)
def test_steps_take_every_sample_once_through_all_changes(plan: EpochPlan) -> None:
    for seed in range(20):
        chance = random.Random(seed)
        position, sizes = 0, []
        while position < plan.samples:
            size = chance.randint(1, 6)
            sizes.append(size)
            count = plan.step_samples(position, size)
            assert 1 <= count <= plan.samples - position
            position += count
        assert position == plan.samples


def test_a_fixed_global_batch_is_cut_the_same_for_any_number_of_workers() -> None:
    plan = EpochPlan(1000, global_batch_size=64)
    for position in range(1000):
        assert len({plan.step_samples(position, size) for size in range(1, 9)}) == 1


def test_no_step_of_a_fixed_global_batch_is_smaller_than_half() -> None:
    for samples in range(16, 200):
        plan, position = EpochPlan(samples, global_batch_size=16), 0
        while position < samples:
            count = plan.step_samples(position, 3)
            assert 8 <= count <= 16
            position += count


def test_advancing_is_taking_steps() -> None:
    plan = EpochPlan(100, batch_size=8)
    assert plan.steps(0, 2) == 7  # six of 16, and what is left
    assert plan.advance(0, 0, 5, 2) == (0, 80)
    assert plan.advance(0, 0, 7, 2) == (1, 0)
    assert plan.advance(0, 80, 3, 2) == (1, 16)
