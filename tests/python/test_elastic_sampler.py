"""Each sample once, whatever happens to the workers; all in one process."""

from __future__ import annotations

import pickle
import random
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from tfring.elastic import Sampler
from tfring.elastic.epoch_plan import EpochPlan
from tfring.elastic.sampler_history import Place, SamplerHistory
from tfring.errors import InvalidArgumentError


class Counting:
    """The part of a state that samplers know."""

    counts_steps = True

    def __init__(self, *samplers: Sampler) -> None:
        self.completed_steps = self.consistent_steps = self.entries = self.epoch = 0
        for sampler in samplers:
            sampler.follow(self)


class Simulation:
    """Workers that come and go while they train; each has a sampler of its own.

    Attributes:
        weights: By epoch and sample: how often it has been part of completed steps.
    """

    def __init__(self, samples: int, chance: random.Random, **batch: int) -> None:
        self.chance = chance
        self.options = {"samples": samples, "seed": chance.randint(0, 99), **batch}
        self.weights: dict[int, np.ndarray] = defaultdict(lambda: np.zeros(samples))
        self.state = Counting()
        self.workers = [self.worker()]

    def worker(self) -> Sampler:
        sampler = Sampler(**self.options)  # type: ignore[arg-type]
        sampler.follow(self.state)
        return sampler

    def change(self) -> None:
        """Some go and some come, and take what a survivor knows."""
        chance = self.chance
        left = chance.sample(self.workers, chance.randint(1, len(self.workers)))
        known = pickle.loads(pickle.dumps(left[0].state_dict()))
        while len(left) < 9 and chance.random() < 0.6:
            left.append(self.worker())
            left[-1].load_state_dict(known)
        self.workers = left
        self.state.entries += 1

    def train(self, epochs: int) -> None:
        """As the user's loop, which is entered again after each change."""
        while not self.enter(epochs):
            self.change()

    def enter(self, epochs: int) -> bool:
        for _ in range(self.state.epoch, epochs):
            if not self.iterate():
                return False
            if self.chance.random() < 0.2:
                return False  # all steps are completed, but the epoch has not ended
            self.state.epoch += 1
        return True

    def iterate(self) -> bool:
        size = len(self.workers)
        batches = [list(w.indices(rank, size)) for rank, w in enumerate(self.workers)]
        assert len({len(own) for own in batches}) == 1
        steps = len(batches[0])
        # Some prefetched, some begun, not completed.
        completed = steps if self.chance.random() < 0.5 else self.chance.randint(0, steps)
        for step in range(completed):
            epoch = self.workers[0].epoch
            assert {(w.epoch, w.position) for w in self.workers} == {
                (epoch, self.workers[0].position)
            }
            own = [b[step] for b in batches]
            taken = [index for part in own for index in part]
            for index in taken:
                self.weights[epoch][index] += 1 / taken.count(index)
            assert all(len(part) for part in own)
            assert max(map(len, own)) - min(map(len, own)) <= 1
            self.state.completed_steps += 1
            self.state.consistent_steps += 1
        return completed == steps


@pytest.mark.parametrize("mode", ["batch_size", "global_batch_size"])
@pytest.mark.parametrize("seed", range(60))
def test_every_sample_is_in_one_completed_step_of_each_epoch(mode: str, seed: int) -> None:
    chance = random.Random(seed)
    samples = chance.randint(1, 80)
    simulation = Simulation(samples, chance, **{mode: chance.randint(1, 24)})
    simulation.train(epochs=3)
    assert sorted(simulation.weights) == [0, 1, 2]
    for counts in simulation.weights.values():
        np.testing.assert_allclose(counts, 1)


def test_the_samples_of_a_step_do_not_depend_on_the_number_of_workers() -> None:
    """With a fixed global batch."""

    def steps(size: int) -> list[list[int]]:
        sampler = Sampler(103, global_batch_size=16, seed=4)
        shares = [list(sampler.indices(rank, size)) for rank in range(size)]
        return [np.concatenate(parts).tolist() for parts in zip(*shares, strict=True)]

    alone = steps(1)
    assert [len(step) for step in alone] == [16, 16, 16, 16, 16, 12, 11]
    for size in range(2, 9):
        assert steps(size) == alone


# ---- Where the training is -----------------------------------------------------------------


def test_history_computes_positions_from_the_numbers_of_workers() -> None:
    history = SamplerHistory(EpochPlan(100, batch_size=5))
    assert history.continue_with(2, 0) == Place(0, 0, 0, 2)
    assert history.at(3) == Place(3, 0, 30, 2)
    assert history.continue_with(4, 3) == Place(3, 0, 30, 4)
    assert history.at(5) == Place(5, 0, 70, 4)
    # Steps that are undone go back over the change.
    assert history.at(2) == Place(2, 0, 20, 2)
    assert history.continue_with(1, 2) == Place(2, 0, 20, 1)
    assert history.at(5) == Place(5, 0, 35, 1)


def test_history_after_a_whole_epoch() -> None:
    history = SamplerHistory(EpochPlan(20, batch_size=5))
    history.continue_with(2, 0)
    assert history.at(2) == Place(2, 1, 0, 2)
    history.begin_at(Place(7, 3, 10, 1))
    assert history.at(9) == Place(9, 4, 0, 1)
    assert history.at(5) == Place(5, 3, 10, 1)  # nothing is known of before


def test_an_update_that_began_in_the_epoch_before_is_repeated() -> None:
    """Two micro-steps an update, three an epoch: the third and the fourth belong together."""
    sampler = Sampler(6, batch_size=2, shuffle=False)
    state = Counting(sampler)
    state.entries = 1
    assert len(list(sampler.indices(0, 1))) == 3
    state.completed_steps, state.consistent_steps, state.epoch = 3, 2, 1
    batches = sampler.indices(0, 1)
    assert next(batches).tolist() == [0, 1]  # of epoch 1: nothing has been undone
    assert sampler.state_dict() == {"steps": 2, "epoch": 0, "samples": 4, "size": 1}
    # The fourth fails.
    state.completed_steps, state.entries = 2, 2
    assert (sampler.epoch, sampler.position) == (0, 4)
    repeated = [batch.tolist() for batch in sampler.indices(0, 1)]
    assert repeated == [[4, 5], [0, 1], [2, 3], [4, 5]]


def test_an_epoch_that_has_not_ended_has_no_more_samples() -> None:
    sampler = Sampler(6, batch_size=2)
    state = Counting(sampler)
    list(sampler.indices(0, 1))
    state.completed_steps, state.entries = 3, 1
    assert list(sampler.indices(0, 1)) == []
    # Whoever does not keep an epoch gets the next one.
    assert len(list(sampler.indices(0, 1))) == 3


def test_users_may_begin_with_a_later_epoch() -> None:
    sampler, other = Sampler(6, batch_size=2), Sampler(6, batch_size=2)
    state = Counting(sampler)
    state.epoch, state.entries = 5, 1
    other.load_state_dict({"steps": 0, "epoch": 5, "samples": 0, "size": 1})
    assert np.array_equal(list(sampler.indices(0, 1)), list(other.indices(0, 1)))
    assert sampler.epoch == 5


def test_counting_by_hand() -> None:
    sampler = Sampler(20, batch_size=2)
    for _ in range(3):
        for number, _ in enumerate(sampler.indices(0, 2)):
            assert sampler.position == 4 * number
            sampler.advance()
    assert (sampler.epoch, sampler.position) == (3, 0)


def test_counting_by_hand_goes_back_with_a_commit() -> None:
    sampler = Sampler(20, batch_size=2)
    list(sampler.indices(0, 2))
    sampler.advance(3)
    committed = sampler.state_dict()
    sampler.advance(1)
    assert sampler.position == 16
    sampler.load_state_dict(committed)
    assert sampler.position == 12
    newcomer = Sampler(20, batch_size=2)
    newcomer.load_state_dict(committed)
    newcomer.advance()
    assert newcomer.position == 16


def test_a_state_that_counts_is_not_helped() -> None:
    sampler = Sampler(20, batch_size=2)
    Counting(sampler)
    with pytest.raises(InvalidArgumentError, match="Counting of this sampler counts"):
        sampler.advance()


@pytest.mark.parametrize(
    ("samples", "options"),
    [(10, {}), (10, {"batch_size": 1, "global_batch_size": 1}), (10, {"batch_size": 0})],
)
def test_arguments_that_make_no_sense(samples: int, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="expected batch_size or global_batch_size"):
        Sampler(samples, **options)


def test_no_samples() -> None:
    with pytest.raises(InvalidArgumentError, match="at least 1, received 0"):
        Sampler([], batch_size=1)
    assert len(list(Sampler(np.int64(3), batch_size=1).indices(0, 1))) == 3  # type: ignore[arg-type]
