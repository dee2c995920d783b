"""Loss scaling: an overflow on one rank is skipped by all of them, and nobody hangs."""

from __future__ import annotations

import pytest


def train(wrap: str, micro_steps: int | None, jit: bool = False) -> None:
    """Six calls of the optimizer; the third overflows on the last rank only."""
    import keras
    import numpy as np

    import tfring
    from harness import training
    from tfring.optimizer import is_distributed

    inner = keras.optimizers.Adam(0.01, gradient_accumulation_steps=micro_steps)
    if wrap == "compile":
        optimizer = tfring.DistributedOptimizer(inner)
    elif wrap == "inside":
        optimizer = keras.optimizers.LossScaleOptimizer(tfring.DistributedOptimizer(inner))
    else:
        optimizer = tfring.DistributedOptimizer(keras.optimizers.LossScaleOptimizer(inner))

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model, fresh = training.classifier(), training.classifier()
    finally:
        keras.config.set_dtype_policy(before)
    model.compile(optimizer, training.loss(), jit_compile=jit)
    scaling = model.optimizer
    assert isinstance(scaling, keras.optimizers.LossScaleOptimizer) and is_distributed(scaling)
    scale = scaling.initial_scale

    x, y = training.examples(6 * 4 * tfring.size())
    x, y = training.mine(x, 4), training.mine(y, 4)
    if tfring.rank() == tfring.size() - 1:
        x[2 * 4] = np.inf
    count = training.reductions(lambda: training.fit(model, x, y, 4))

    calls = int(inner.variables[0])
    assert calls == 5, "one call was skipped"
    assert float(scaling.dynamic_scale) == scale / 2
    assert int(scaling.step_counter) == 3
    if micro_steps is None:
        assert count == 6
    else:
        assert count == 6 + calls // micro_steps  # a flag each call, one reduction each update
    assert all(np.isfinite(weight).all() for weight in model.weights)
    training.assert_changed(model, fresh)
    training.assert_ranks_agree(model)


def every_way_to_wrap() -> None:
    for wrap in ("compile", "inside", "outside"):
        train(wrap, None)


def with_accumulation() -> None:
    for wrap in ("compile", "outside"):
        train(wrap, 2)


def under_xla() -> None:
    train("compile", None, jit=True)
    train("compile", 2, jit=True)


def overflow_everywhere_and_float16_variables() -> None:
    """Gradients of float16 overflow in the sum over ranks or before: all the same."""
    import keras
    import numpy as np
    import tensorflow as tf

    import tfring
    from tfring.variables import assert_identical

    variable = keras.Variable(np.ones(3), dtype="float16")
    optimizer = tfring.DistributedOptimizer(
        keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0), initial_scale=4.0),
        op=tfring.Sum,
    )
    optimizer.build([variable])
    step = tf.function(lambda gradient: optimizer.apply([gradient], [variable]))
    step(tf.fill([3], tf.constant(40000.0, tf.float16)))  # 80000 is infinite in float16
    assert float(optimizer.dynamic_scale) == 2.0
    np.testing.assert_array_equal(variable, np.ones(3))
    step(tf.fill([3], tf.constant(1.0, tf.float16)))
    np.testing.assert_array_equal(variable, np.full(3, 1 - tfring.size() / 2.0))
    assert_identical([variable, *optimizer.variables])


@pytest.mark.parametrize(
    "check",
    [
        every_way_to_wrap,
        with_accumulation,
        under_xla,
        overflow_everywhere_and_float16_variables,
    ],
)
def test_mixed_precision(warm_ranks, check) -> None:
    warm_ranks(check)
