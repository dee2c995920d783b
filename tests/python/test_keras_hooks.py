"""What tfring takes from Keras without a promise is still there and still means the same."""

from __future__ import annotations

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfring import keras_hooks


def variables(*shapes: tuple[int, ...]) -> list[keras.Variable]:
    return [
        keras.Variable(np.ones(shape, "float32"), name=f"v{n}") for n, shape in enumerate(shapes)
    ]


def ones_like(targets: list[keras.Variable]) -> list[tf.Tensor]:
    return [tf.ones(target.shape) for target in targets]


def test_accumulators_hold_the_sum_and_are_emptied_by_the_update() -> None:
    targets = variables((2,), (3,))
    optimizer = keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)
    optimizer.build(targets)
    assert keras_hooks.accumulating_optimizer(optimizer) is optimizer
    everything = [id(accumulator) for accumulator in keras_hooks.accumulators(optimizer, targets)]
    assert keras_hooks.accumulator_ids(optimizer) == set(everything)
    assert len(everything) == 2 and set(everything) < set(map(id, optimizer.variables))
    for expected_sum, last in ((1.0, False), (0.0, True), (1.0, False), (0.0, True)):
        assert bool(keras_hooks.completes_update(optimizer)) is last
        optimizer.apply(ones_like(targets), targets)
        sums = keras_hooks.accumulators(optimizer, targets[::-1])
        assert [accumulator.shape for accumulator in sums] == [(3,), (2,)]
        assert all((accumulator.numpy() == expected_sum).all() for accumulator in sums)


def test_an_update_uses_the_mean_of_accumulators_and_gradient() -> None:
    """So an emptied accumulator and the whole sum as gradient give the same update."""
    (target,) = targets = variables((1,))
    optimizer = keras.optimizers.SGD(1.0, gradient_accumulation_steps=2)
    optimizer.apply([tf.constant([3.0])], targets)
    (accumulator,) = keras_hooks.accumulators(optimizer, targets)
    accumulator.assign([0.0])
    optimizer.apply([tf.constant([8.0])], targets)
    assert target.numpy() == [1.0 - 8.0 / 2]


@pytest.mark.parametrize("scale", [None, 4.0])
def test_accumulators_are_unscaled(scale: float | None) -> None:
    targets = variables((1,))
    optimizer = keras.optimizers.SGD(1.0, gradient_accumulation_steps=2, loss_scale_factor=scale)
    factor = keras_hooks.gradient_scale(optimizer)
    assert factor is None if scale is None else float(factor) == scale
    optimizer.apply([tf.constant([8.0])], targets)
    assert keras_hooks.accumulators(optimizer, targets)[0].numpy() == [8.0 / (scale or 1.0)]


def test_loss_scaling_passes_unscaled_gradients_to_its_inner_optimizer() -> None:
    targets = variables((1,))
    inner = keras.optimizers.SGD(1.0, gradient_accumulation_steps=2)
    optimizer = keras.optimizers.LossScaleOptimizer(inner, initial_scale=4.0)
    optimizer.build(targets)
    assert keras_hooks.loss_scaled(optimizer) and not keras_hooks.loss_scaled(inner)
    assert keras_hooks.accumulating_optimizer(optimizer) is inner
    assert keras_hooks.inner_optimizers(optimizer) == [inner]
    assert float(keras_hooks.gradient_scale(optimizer)) == 4.0
    optimizer.apply([tf.constant([8.0])], targets)
    assert keras_hooks.accumulators(inner, targets)[0].numpy() == [2.0]


def test_loss_scaling_skips_a_call_with_any_nan() -> None:
    targets = variables((1,), (1,))
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0), initial_scale=4.0)
    optimizer.apply([tf.constant([float("nan")]), tf.constant([1.0])], targets)
    assert float(optimizer.dynamic_scale) == 2.0
    assert [float(target.numpy()[0]) for target in targets] == [1.0, 1.0]


def test_known_variables_are_those_it_was_built_for() -> None:
    targets = variables((1,), (2,))
    for optimizer in (
        keras.optimizers.Adam(),
        keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam()),
    ):
        optimizer.build(targets)
        assert [id(v) for v in keras_hooks.known_variables(optimizer)] == [id(v) for v in targets]


def test_a_multi_optimizer_lists_those_it_delegates_to() -> None:
    if not hasattr(keras.optimizers, "MultiOptimizer"):
        pytest.skip(f"Keras {keras.__version__} has no MultiOptimizer")
    adam, sgd = keras.optimizers.Adam(), keras.optimizers.SGD()
    chosen = {"v0": adam, "v1": sgd}
    optimizer = keras.optimizers.MultiOptimizer(lambda variable: chosen[variable.name])
    optimizer.build(variables((1,), (1,)))
    assert keras_hooks.inner_optimizers(optimizer) == [adam, sgd]


def test_compile_makes_a_loss_scale_optimizer_that_is_reported() -> None:
    cls = keras.optimizers.LossScaleOptimizer
    before = cls.__init__
    signature = inspect.signature(cls.__init__)
    plain = getattr(before, "_tfring_original", before)
    created = []
    cls.__init__ = plain
    try:
        keras_hooks.on_loss_scale_optimizer(created.append)
        keras_hooks.on_loss_scale_optimizer(created.append)
        assert inspect.signature(cls.__init__) == signature
        model = keras.Sequential([keras.layers.Dense(1)])
        model.dtype_policy = keras.DTypePolicy("mixed_float16")
        model.compile(keras.optimizers.SGD(), "mse")
        assert created == [model.optimizer]
    finally:
        cls.__init__ = before


def test_overwritten_by_gradient() -> None:
    plain, special = variables((1,), (1,))
    special.overwrite_with_gradient = True
    assert not keras_hooks.overwritten_by_gradient(plain)
    assert not keras_hooks.overwritten_by_gradient(tf.Variable(1.0))
    assert keras_hooks.overwritten_by_gradient(special)
