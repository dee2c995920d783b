"""Autotuning on real ranks: they decide alike, and right if the times are clear."""

from __future__ import annotations

from pathlib import Path

import keras
import pytest
import tensorflow as tf

import tfring
from harness import training
from harness.launched import PYTHON, tfringrun
from tfring import autotune, bucket_size, engine
from tfring.config import Config

# Of the settings, and the only other size that makes a difference.
START, OTHER = 25 * 2**20, autotune.MIB
STEPS = 60


def wide() -> keras.Model:
    """4.2 MB of gradients: two buckets of up to 25 MiB, or more of 1 MiB."""
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(512, activation="tanh") for _ in range(4)]
    return keras.Sequential([keras.Input((training.FEATURES,)), *layers, keras.layers.Dense(4)])


class SlowWith:
    """A clock by which steps take longer with one size; each rank believes another one."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._time = 0.0
        self._calls = 0

    def __call__(self) -> float:
        self._calls += 1
        if self._calls % 2 == 0:  # the end of a step
            slow = bucket_size.current(0) == self._size
            self._time += (2.0 if slow else 1.0) + 0.001 * engine.rank()
        return self._time


def own_loop(slow: int) -> tuple:
    bucket_size.use(None)
    model = wide()
    optimizer = tfring.DistributedOptimizer("sgd")
    optimizer.build(model.trainable_variables)

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = training.loss()(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    tuned = autotune.TunedSteps(lambda: tf.function(step), seconds=SlowWith(slow))
    x, y = training.examples(8, seed=engine.rank())
    steps = 0
    while tuned.outcome is None and steps < STEPS:
        tuned(x, y)
        steps += 1
    tuned(x, y)
    training.assert_ranks_agree(model)
    chosen = tuned.outcome.chosen
    assert bucket_size.current(START) == chosen
    return chosen, steps, tuned.outcome.gain


@pytest.mark.parametrize(("slow", "expected"), [(START, OTHER), (OTHER, START)])
def test_ranks_choose_alike(warm_ranks, slow, expected):
    results = warm_ranks(own_loop, slow)
    assert {chosen for chosen, _, _ in results} == {expected}
    assert len({steps for _, steps, _ in results}) == 1
    for _, _, gain in results:
        assert gain == pytest.approx(0.5 if expected == OTHER else 0.0, abs=0.01)


def fit(steps: int, epochs: int, bucket_bytes: int | None = None) -> tuple:
    bucket_size.use(None)
    bucket_size._InUse.planned.clear()
    engine.init(Config.from_environment(autotune=True))
    try:
        x, y = training.examples(steps * 8 + engine.rank() * 8, seed=engine.rank())
        model = wide()
        optimizer = tfring.DistributedOptimizer("sgd", bucket_bytes=bucket_bytes)
        model.compile(optimizer, training.loss())
        callbacks = [tfring.callbacks.BroadcastInitialVariables()]
        model.fit(x, y, batch_size=8, epochs=epochs, verbose=0, callbacks=callbacks)
        training.assert_ranks_agree(model)
        # Nothing of ours is left before Keras's own function.
        assert not hasattr(model.train_function, "__self__")
        model.fit(x[:16], y[:16], batch_size=8, verbose=0)
        return bucket_size.current(START), int(optimizer.iterations)
    finally:
        engine.shutdown()


@pytest.mark.filterwarnings("ignore:the ranks have different numbers")
@pytest.mark.parametrize(("steps", "epochs"), [(STEPS, 1), (7, 9), (5, 1)])
def test_in_fit(warm_ranks, steps, epochs):
    """Whatever real times say, ranks agree, and every step is an ordinary step."""
    results = warm_ranks(fit, steps, epochs, init=False)
    assert len(set(results)) == 1
    size, iterations = results[0]
    assert size in (START, OTHER) if steps * epochs > 50 else size == START
    assert iterations == steps * epochs + 2


def test_explicit_sizes_are_left_alone(warm_ranks):
    assert set(warm_ranks(fit, 4, 1, 100_000, init=False)) == {(START, 6)}


SCRIPT = """
import sys; sys.path[:0] = {paths!r}
import tfring
from test_autotune import wide
from harness import training
tfring.init()
x, y = training.examples(60 * 8, seed=tfring.rank())
model = wide()
model.compile(tfring.DistributedOptimizer("sgd"), training.loss())
callbacks = [tfring.callbacks.BroadcastInitialVariables()]
model.fit(x, y, batch_size=8, verbose=0, callbacks=callbacks)
"""


def test_the_launcher_asks_for_it_and_the_choice_is_told() -> None:
    here = Path(__file__).resolve().parent
    script = SCRIPT.format(paths=[str(here), str(here.parent)])
    result = tfringrun("-np", "2", "--autotune", PYTHON, "-c", script)
    assert result.returncode == 0, result.stderr
    said = [line for line in result.stderr.splitlines() if "autotune: buckets of" in line]
    assert len(said) == 1, result.stderr
    assert said[0].startswith("[0]")
    assert "as before" in said[0] or "instead of" in said[0]
