"""After a step that has failed every variable is what it was before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfring
from harness.failing_reductions import FailingReductions
from tfring.elastic import KerasState, TensorFlowState

BATCH, STEPS = 4, 8


@pytest.fixture(autouse=True)
def job() -> Any:
    tfring.init()
    yield
    tfring.shutdown()
    keras.config.set_dtype_policy("float32")


@pytest.fixture
def reductions(monkeypatch: pytest.MonkeyPatch) -> FailingReductions:
    return FailingReductions().install(monkeypatch)


def classifier(cls: Any = keras.Model, frozen: bool = False) -> Any:
    keras.utils.set_random_seed(1)
    inputs = keras.Input((6,))
    x = keras.layers.Dense(8, trainable=not frozen)(inputs)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.Dropout(0.2)(x)
    return cls(inputs, keras.layers.Dense(4, dtype="float32")(x))


def compiled(optimizer: Any, cls: Any = keras.Model, **options: Any) -> Any:
    model = classifier(cls)
    # Each gradient is a bucket of its own.
    model.compile(
        tfring.DistributedOptimizer(optimizer, bucket_bytes=1),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy", keras.metrics.AUC(curve="PR", from_logits=True, name="auc")]
        if options.pop("auc", False)
        else ["accuracy"],
        **options,
    )
    return model


def batches(first: int) -> Any:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((STEPS * 4 * BATCH, 6)).astype("float32")
    y = (np.abs(x[:, 0] * 3 + x[:, 1]) % 4).astype("int64")
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH, drop_remainder=True)
    return iter(data.skip(first))


def variables(model: Any) -> list[Any]:
    found = [*model.variables]
    for value in vars(model).values():
        if isinstance(value, keras.optimizers.Optimizer):
            found += value.variables
    return list({id(v): v for v in found}.values())


def values(model: Any) -> dict[str, np.ndarray]:
    return {
        f"{number} {v.path}": np.array(keras.ops.convert_to_numpy(v))
        for number, v in enumerate(variables(model))
    }


def assert_equal(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert len(one) == len(other)
    for (name, value), (_, wanted) in zip(one.items(), other.items(), strict=True):
        np.testing.assert_array_equal(value, wanted, err_msg=name)


def train(model: Any, calls: int, first: int = 0) -> None:
    model.make_train_function()
    iterator = batches(first)
    for _ in range(calls):
        model.train_function(iterator)


class TwoUpdates(keras.Model):
    """As a GAN: two optimizers, one after the other."""

    def compile(self, optimizer: Any, *args: Any, second: Any = None, **options: Any) -> None:
        super().compile(optimizer, *args, **options)
        self.second = second

    def train_step(self, data: Any) -> Any:
        x, y = data
        half = len(self.trainable_variables) // 2
        parts = self.trainable_variables[:half], self.trainable_variables[half:]
        for part, optimizer in zip(parts, (self.optimizer, self.second), strict=True):
            with tf.GradientTape() as tape:
                prediction = self(x, training=True)
                loss = self.compute_loss(x, y, prediction)
            optimizer.apply(tape.gradient(loss, part), part)
        return self.compute_metrics(x, y, prediction)


class OneTwice(TwoUpdates):
    """One optimizer that is applied twice a step."""

    def train_step(self, data: Any) -> Any:
        x, y = data
        for _ in range(2):
            with tf.GradientTape() as tape:
                prediction = self(x, training=True)
                loss = self.compute_loss(x, y, prediction)
            self.optimizer.apply(
                tape.gradient(loss, self.trainable_variables), self.trainable_variables
            )
        return self.compute_metrics(x, y, prediction)


class Calling(keras.Model):
    """A train_step of its own that takes one update."""

    def train_step(self, data: Any) -> Any:
        return super().train_step(data)


def two_optimizers() -> Any:
    second = tfring.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9), bucket_bytes=1)
    return compiled(keras.optimizers.Adam(0.01), TwoUpdates, second=second)


def in_float16(**options: Any) -> Any:
    keras.config.set_dtype_policy("mixed_float16")
    model = compiled(keras.optimizers.Adam(0.01, **options))
    model.optimizer.build(model.trainable_variables)
    model.optimizer.dynamic_scale.assign(1024)  # small enough for no step to be skipped
    return model


MODELS: dict[str, Callable[[], Any]] = {
    "plain": lambda: compiled(keras.optimizers.Adam(0.01)),
    "eager": lambda: compiled(keras.optimizers.Adam(0.01), run_eagerly=True),
    "momentum": lambda: compiled(keras.optimizers.SGD(0.1, momentum=0.9, clipnorm=1.0)),
    "averages": lambda: compiled(keras.optimizers.SGD(0.1, use_ema=True, weight_decay=0.01)),
    "float16": in_float16,
    "own train_step": lambda: compiled(keras.optimizers.Adam(0.01), Calling),
    "two optimizers": two_optimizers,
    "two optimizers, eager": lambda: _eager(two_optimizers()),
    "one optimizer twice": lambda: compiled(keras.optimizers.SGD(0.1, momentum=0.9), OneTwice),
}


def _eager(model: Any) -> Any:
    model.run_eagerly = True
    return model


@pytest.mark.parametrize("kind", MODELS)
def test_failed_step_changes_nothing(reductions: FailingReductions, kind: str) -> None:
    model = MODELS[kind]()
    state = KerasState(model)
    train(model, 2)
    per_step = int(reductions.ran) // 2
    assert state.completed_steps == 2
    for reduction in range(per_step):
        before, done = values(model), state.completed_steps
        with reductions.failing(reduction):
            train(model, 1, done)
        state.recover()
        assert_equal(values(model), before)
        assert state.completed_steps == done
        train(model, 1, done)
        assert state.completed_steps == done + 1
    reference = MODELS[kind]()
    KerasState(reference)
    train(reference, 2 + per_step)
    assert_equal(values(model), values(reference))


def test_failure_within_an_execution_of_several_steps(reductions: FailingReductions) -> None:
    def make(steps: int) -> Any:
        return compiled(keras.optimizers.Adam(0.01), steps_per_execution=steps)

    model, reference = make(4), make(1)
    state = KerasState(model)
    KerasState(reference)
    train(model, 1)
    per_step = int(reductions.ran) // 4
    done = 4
    for reduction in range(per_step):
        with reductions.failing(2 * per_step + reduction):
            train(model, 1, done)
        state.recover()
        done += 2
        assert state.completed_steps == done
    train(reference, done)
    assert_equal(values(model), values(reference))


@pytest.mark.parametrize("options", [{}, {"use_ema": True}, {"float16": True}], ids=str)
def test_an_update_is_redone_from_its_first_call(
    reductions: FailingReductions, options: dict[str, Any]
) -> None:
    make_float16 = options.pop("float16", False)

    def make() -> Any:
        options["gradient_accumulation_steps"] = 3
        if make_float16:
            return in_float16(**options)
        return compiled(keras.optimizers.Adam(0.01, **options))

    model, reference = make(), make()
    state = KerasState(model)
    KerasState(reference)
    train(model, 3)
    before = values(model)
    # The first two calls of an update are completed steps, until it fails.
    train(model, 2, 3)
    assert state.completed_steps == 5
    per_update = int(reductions.ran)
    with reductions.failing(per_update // 3 if make_float16 else 1):
        train(model, 1, 5)
    state.recover()
    assert state.completed_steps == 3
    assert_equal(values(model), before)
    train(model, 3, 3)
    train(reference, 6)
    assert_equal(values(model), values(reference))
    # Also when something else ends the training between two calls.
    train(model, 1, 6)
    state.recover()
    assert state.completed_steps == 6
    assert_equal(values(model), values(reference))


def test_skipped_steps_are_completed_ones(reductions: FailingReductions) -> None:
    model = in_float16()
    state = KerasState(model)
    train(model, 1)
    model.optimizer.dynamic_scale.assign(1e38)
    train(model, 1, 1)
    assert int(model.optimizer.iterations) == 1
    assert state.completed_steps == 2


def own_loop(gated: bool) -> tuple[Any, TensorFlowState, Any]:
    """A model, its state and its step: reduced by the tape if `gated`, else by the optimizer."""
    model = classifier()
    optimizer = keras.optimizers.Adam(0.01, weight_decay=0.1)
    if not gated:
        optimizer = tfring.DistributedOptimizer(optimizer, bucket_bytes=1)
    optimizer.build(model.trainable_variables)
    state = TensorFlowState(model=model, optimizer=optimizer)
    model.optimizer_of_test = optimizer

    @tf.function
    def step(x: Any, y: Any) -> None:
        tape: Any
        with tf.GradientTape() as tape:
            loss = keras.losses.sparse_categorical_crossentropy(
                y, model(x, training=True), from_logits=True
            )
        if gated:
            tape = tfring.DistributedGradientTape(tape, bucket_bytes=1)
        gradients = tape.gradient(loss, model.trainable_variables)
        if gated:
            gradients = [0.5 * gradient for gradient in gradients]
        optimizer.apply(gradients, model.trainable_variables)

    return model, state, state.atomic(step)


@pytest.mark.parametrize("gated", [False, True])
def test_loop_of_ones_own(reductions: FailingReductions, gated: bool) -> None:
    model, state, step = own_loop(gated)
    iterator = batches(0)
    step(*next(iterator))
    per_step = int(reductions.ran)
    assert state.completed_steps == 1
    for reduction in range(per_step):
        before = values(model)
        data = next(iterator)
        with reductions.failing(reduction):
            step(*data)
        state.recover()
        assert_equal(values(model), before)
        assert state.completed_steps == 1 + reduction
        step(*data)


def test_two_updates_in_a_loop_of_ones_own_are_one_step(reductions: FailingReductions) -> None:
    weights = [tf.Variable(1.0), tf.Variable(2.0)]
    optimizers = [
        tfring.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.5)) for _ in weights
    ]
    for optimizer, weight in zip(optimizers, weights, strict=True):
        optimizer.build([weight])
    holder = keras.Model()
    holder.first, holder.second = optimizers
    state = TensorFlowState(weights, model=holder)

    @tf.function
    def step() -> None:
        for optimizer, weight in zip(optimizers, weights, strict=True):
            with tf.GradientTape() as tape:
                loss = weight * weights[0]
            optimizer.apply([tape.gradient(loss, weight)], [weight])

    step = state.atomic(step)
    step()
    assert state.completed_steps == 1
    before = [float(weight) for weight in weights]
    with reductions.failing(1):
        step()
    assert [float(weight) for weight in weights] != before
    state.recover()
    assert [float(weight) for weight in weights] == before
    step()
    assert state.completed_steps == 2


def test_nothing_to_undo_after_a_completed_step(reductions: FailingReductions) -> None:
    model = compiled(keras.optimizers.Adam(0.01))
    state = KerasState(model)
    state.recover()
    train(model, 3)
    before = values(model)
    state.recover()
    assert_equal(values(model), before)
    assert state.completed_steps == 3


def test_without_a_state_nothing_is_counted(reductions: FailingReductions) -> None:
    model = compiled(keras.optimizers.Adam(0.01))
    train(model, 1)
    assert "train_step" not in vars(model)
    assert model.optimizer.tfring_on_update is None


def test_two_states_of_one_model(reductions: FailingReductions) -> None:
    model = compiled(keras.optimizers.Adam(0.01))
    KerasState(model)
    state = KerasState(model)
    train(model, 2)
    assert state.completed_steps == 2
