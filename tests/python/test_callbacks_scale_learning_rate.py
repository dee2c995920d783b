"""A learning rate that follows the number of workers, and goes back with an undone step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

import tfring
from tfring import engine
from tfring.callbacks import ScaleLearningRate
from tfring.config import Config
from tfring.errors import InvalidArgumentError


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    tfring.init(Config())
    yield
    tfring.shutdown()


class Job:
    """A model that takes steps, with a number of workers that tests set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, momentum: float = 0.0) -> None:
        self.size = 4
        monkeypatch.setattr(engine, "size", lambda: self.size)
        self.model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        self.model.compile(keras.optimizers.SGD(0.4, momentum=momentum), "mse")
        self.model.optimizer.build(self.model.trainable_variables)

    def begin(self, callback: ScaleLearningRate) -> float:
        callback.set_model(self.model)
        callback.on_train_batch_begin(0)
        return round(float(np.asarray(self.model.optimizer.learning_rate)), 6)

    def complete(self) -> None:
        self.model.optimizer.iterations.assign_add(1)

    def step(self, callback: ScaleLearningRate) -> float:
        rate = self.begin(callback)
        self.complete()
        return rate


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Job:
    return Job(monkeypatch)


def test_the_rate_follows_the_size(job: Job) -> None:
    callback = ScaleLearningRate()
    assert job.step(callback) == 0.4
    job.size = 3
    assert job.step(callback) == 0.3
    assert job.step(callback) == 0.3
    job.size = 8
    assert job.step(callback) == 0.8


def test_the_rate_of_another_size(job: Job) -> None:
    assert job.step(ScaleLearningRate(1)) == 1.6


def test_what_others_set_is_scaled(job: Job) -> None:
    callback = ScaleLearningRate()
    job.step(callback)
    job.model.optimizer.learning_rate = 0.04
    job.size = 2
    assert job.step(callback) == 0.02


def test_warmup(job: Job) -> None:
    callback = ScaleLearningRate(warmup_steps=4)
    job.step(callback)
    job.size = 8
    assert [job.step(callback) for _ in range(6)] == [0.4, 0.5, 0.6, 0.7, 0.8, 0.8]


def test_a_change_during_warmup(job: Job) -> None:
    callback = ScaleLearningRate(warmup_steps=4)
    job.step(callback)
    job.size = 8
    assert [job.step(callback) for _ in range(2)] == [0.4, 0.5]
    job.size = 2
    assert [job.step(callback) for _ in range(5)] == [0.5, 0.425, 0.35, 0.275, 0.2]


@pytest.mark.parametrize("warmup_steps", [0, 3])
def test_ranks_agree_wherever_they_were_interrupted(
    monkeypatch: pytest.MonkeyPatch, warmup_steps: int
) -> None:
    """One had begun the first step of the generation with 3 workers, and the other had not."""

    def rank(had_begun: bool) -> list[Any]:
        job = Job(monkeypatch, momentum=0.9)
        job.model.optimizer.momentums[0].assign([[0.7]])
        callback = ScaleLearningRate(warmup_steps=warmup_steps)
        job.step(callback)
        job.size = 3
        if had_begun:
            job.begin(callback)
            callback.tfring_undo_step()
            assert callback.size == 4
        job.size = 5
        rates: list[Any] = [job.step(callback) for _ in range(5)]
        return [*rates, np.asarray(job.model.optimizer.momentums[0]).tolist()]

    assert rank(True) == rank(False)
    assert rank(True)[4] == 0.5


def test_a_completed_step_is_not_undone(job: Job) -> None:
    callback = ScaleLearningRate()
    job.step(callback)
    job.size = 2
    job.step(callback)
    callback.tfring_undo_step()
    assert callback.size == 2
    assert job.step(callback) == 0.2


@pytest.mark.parametrize("options", [{"size": 0}, {"warmup_steps": -1}])
def test_numbers_out_of_range(options: dict[str, int]) -> None:
    with pytest.raises(InvalidArgumentError, match="or more, received"):
        ScaleLearningRate(**options)
