"""Warm-up and schedules, alone in one process."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

import tfring
from tfring import engine
from tfring.callbacks import LearningRateSchedule, LearningRateWarmup
from tfring.callbacks.learning_rate import LearningRate
from tfring.callbacks.learning_rate_schedule import piecewise
from tfring.config import Config
from tfring.errors import InvalidArgumentError

STEPS = 4


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    tfring.init(Config())
    yield
    tfring.shutdown()


class Recorder(keras.callbacks.Callback):
    """Notes the rate of every step."""

    def __init__(self) -> None:
        super().__init__()
        self.rates: list[float] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.rates.append(round(float(np.asarray(self.model.optimizer.learning_rate)), 6))


def model_with(optimizer: Any) -> keras.Model:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(optimizer, "mse")
    return model


def rates(callbacks: list[Any], epochs: int, rate: float = 0.4, **options: Any) -> list[float]:
    model = model_with(keras.optimizers.SGD(rate, momentum=0.9))
    recorder = Recorder()
    x, y = np.zeros((STEPS * 2, 2)), np.zeros(STEPS * 2)
    model.fit(
        x, y, batch_size=2, epochs=epochs, callbacks=[*callbacks, recorder], verbose=0, **options
    )
    return recorder.rates


def test_warmup_goes_from_the_rate_of_one_process_to_that_of_all(monkeypatch) -> None:
    monkeypatch.setattr(engine, "size", lambda: 4)
    expected = [round(0.1 + 0.3 * step / 8, 6) for step in range(8)] + [0.4] * 4
    assert rates([LearningRateWarmup(warmup_epochs=2)], 3) == expected
    assert rates([LearningRateWarmup(0.1, warmup_epochs=2)], 3, rate=7.0) == expected
    assert rates([LearningRateWarmup(target=0.4, warmup_epochs=2)], 3, rate=7.0) == expected


def test_warmup_alone_changes_nothing() -> None:
    assert rates([LearningRateWarmup(warmup_epochs=2)], 3) == [0.4] * 12


def test_warmup_lengths(monkeypatch) -> None:
    monkeypatch.setattr(engine, "size", lambda: 2)
    half = rates([LearningRateWarmup(0.2, warmup_epochs=0.5)], 1)
    assert half == [0.2, 0.3, 0.4, 0.4]
    assert rates([LearningRateWarmup(0.2, warmup_epochs=0)], 1, rate=7.0) == [0.4] * 4


def test_a_resumed_warmup_goes_on_where_it_was(monkeypatch) -> None:
    monkeypatch.setattr(engine, "size", lambda: 2)
    warmup = LearningRateWarmup(0.2, warmup_epochs=2)
    whole = rates([warmup], 4)
    assert rates([warmup], 4, initial_epoch=1) == whole[4:]
    assert rates([warmup], 4, initial_epoch=2) == whole[8:]
    # By then the rate may be that of a schedule.
    assert rates([warmup], 4, rate=0.03, initial_epoch=3) == [0.03] * 4


def test_a_schedule_may_follow_a_warmup(monkeypatch) -> None:
    monkeypatch.setattr(engine, "size", lambda: 2)
    for order in (1, -1):
        callbacks = [
            LearningRateWarmup(0.2, warmup_epochs=1),
            LearningRateSchedule({1: 0.05, 2: 0.01}),
        ][::order]
        assert rates(callbacks, 3)[4:] == [0.05] * 4 + [0.01] * 4


def test_schedules_by_epoch_and_by_batch() -> None:
    assert rates([LearningRateSchedule({1: 0.1})], 3) == [0.4] * 4 + [0.1] * 8
    assert rates([LearningRateSchedule(lambda epoch: 0.1 / (epoch + 1))], 2) == (
        [0.1] * 4 + [0.05] * 4
    )
    cosine = LearningRateSchedule(lambda e: 0.2 + 0.1 * math.cos(math.pi * e / 2), by="batch")
    assert rates([cosine], 2) == [
        round(0.2 + 0.1 * math.cos(math.pi * step / 8), 6) for step in range(8)
    ]


def test_piecewise_leaves_what_comes_before_alone() -> None:
    rate = piecewise({4: 0.01, 2: 0.1})
    assert [rate(epoch) for epoch in (0, 1.9, 2, 3.5, 4, 99)] == [None, None, 0.1, 0.1, 0.01, 0.01]


def test_unknown_length_needs_steps_per_epoch() -> None:
    import tensorflow as tf

    model = model_with("sgd")
    data = tf.data.Dataset.from_tensors((np.zeros((2, 2)), np.zeros(2))).repeat(4)
    data = data.filter(lambda *_: True)
    with pytest.raises(InvalidArgumentError, match=r"steps_per_epoch: the length .* is unknown"):
        model.fit(data, callbacks=[LearningRateWarmup()], verbose=0)
    model.fit(data, callbacks=[LearningRateWarmup(steps_per_epoch=4)], verbose=0)


def test_momentum_correction_equals_another_form_of_momentum() -> None:
    """Goyal et al.: v = m v - lr g with corrected v is u = m u + g, w -= lr u."""
    gradients = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
    schedule = [0.1, 0.1, 0.4, 0.2, 0.2, 0.05]

    def train(correct: bool) -> np.ndarray:
        optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
        model = model_with(optimizer)
        weight = keras.Variable(np.zeros(3))
        optimizer.build([weight])
        rate = LearningRate(model, momentum_correction=correct)
        for value, gradient in zip(schedule, gradients, strict=True):
            rate.set(value)
            optimizer.apply([gradient], [weight])
        return weight.numpy()

    u, w = np.zeros(3), np.zeros(3)
    for value, gradient in zip(schedule, gradients, strict=True):
        u = 0.9 * u + gradient
        w = w - value * u
    np.testing.assert_allclose(train(True), w, rtol=1e-5)
    assert np.abs(train(False) - w).max() > 0.01


def test_the_rate_within_a_loss_scale_optimizer() -> None:
    inner = keras.optimizers.SGD(0.1, momentum=0.9)
    model = model_with(keras.optimizers.LossScaleOptimizer(inner))
    model.optimizer.build(model.trainable_variables)
    for velocity in inner.momentums:
        velocity.assign(velocity + 1)
    rate = LearningRate(model)
    rate.set(0.2)
    assert float(np.asarray(inner.learning_rate)) == pytest.approx(0.2)
    assert all((np.asarray(velocity) == 2).all() for velocity in inner.momentums)


def test_mistakes_are_named() -> None:
    decay = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    with pytest.raises(InvalidArgumentError, match="not with a LearningRateSchedule of Keras"):
        LearningRate(model_with(keras.optimizers.SGD(decay)))
    with pytest.raises(InvalidArgumentError, match="has no optimizer; compile it"):
        LearningRate(keras.Sequential([keras.layers.Dense(1)]))
    with pytest.raises(InvalidArgumentError, match="initial: expected a rate above 0, received -1"):
        LearningRateWarmup(-1)
    with pytest.raises(InvalidArgumentError, match="warmup_epochs: expected 0 or more"):
        LearningRateWarmup(warmup_epochs=-1)
    with pytest.raises(InvalidArgumentError, match="by: expected 'epoch' or 'batch'"):
        LearningRateSchedule({}, by="step")
    with pytest.raises(InvalidArgumentError, match=r"schedule: expected a mapping .* received 0.1"):
        LearningRateSchedule(0.1)
    with pytest.raises(InvalidArgumentError, match=r"a rate above 0 for epoch 0, received -0.1"):
        rates([LearningRateSchedule(lambda epoch: -0.1)], 1)
