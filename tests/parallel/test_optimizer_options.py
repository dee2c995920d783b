"""What optimizers do besides their update, on gradients of all ranks."""

from __future__ import annotations

import pytest


def compare(optimizer: str, options: dict, **comparison) -> int:
    import keras

    from harness import training

    def make(**more):
        return getattr(keras.optimizers, optimizer)(learning_rate=0.05, **options, **more)

    return training.compare(make, **comparison)


def clip() -> None:
    # Local gradients exceed the limits at other times than reduced ones do.
    assert compare("SGD", {"clipnorm": 0.05}) == 6
    assert compare("SGD", {"global_clipnorm": 0.1}) == 6
    assert compare("Adam", {"clipvalue": 0.01}, rtol=1e-4) == 6


def average_and_decay() -> None:
    ema = {"use_ema": True, "ema_momentum": 0.5, "ema_overwrite_frequency": 2}
    compare("SGD", {"weight_decay": 0.1, "momentum": 0.9, **ema})
    compare("AdamW", {"weight_decay": 0.1, "use_ema": True, "ema_momentum": 0.5})


def schedule() -> None:
    import keras

    from harness import training

    def make():
        decay = keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
        return keras.optimizers.SGD(decay, momentum=0.9)

    training.compare(make)


def accumulate() -> None:
    import keras

    from harness import training

    for micro_steps in (2, 3):
        for options in ({"clipnorm": 0.05}, {"momentum": 0.9, "weight_decay": 0.01}):
            count = compare("SGD", options, micro_steps=micro_steps, steps=4)
            assert count == 4

    def make(**more):
        return keras.optimizers.Adam(0.01, loss_scale_factor=256.0 if more else None, **more)

    assert training.compare(make, micro_steps=2, rtol=1e-4) == 6


def sparse() -> None:
    from harness import training

    words = {"make_model": training.reader, "make_examples": training.sentences}
    for optimizer, options in (
        ("SGD", {"momentum": 0.9}),
        ("Adam", {}),
        ("SGD", {"clipnorm": 0.1}),
    ):
        count = compare(optimizer, options, **words)
        assert count == 6  # of the dense gradients; the others are gathered
    dense = {"wrap": {"sparse_as_dense": True}, **words}
    assert compare("SGD", {"momentum": 0.9}, **dense) == 6
    assert compare("SGD", {}, micro_steps=2, **words) == 6


def buckets() -> None:
    many = {"wrap": {"bucket_bytes": 64}}
    # In the order of backpropagation: 16 + 128, 32 + 512, 64 and 384 bytes.
    assert compare("Adam", {}, **many, steps=4) == 4 * 4
    assert compare("Adam", {}, wrap={"bucket_bytes": 1}, steps=4) == 4 * 6


def applied(optimizer, *variables):
    """A traced function that applies its arguments."""
    import tensorflow as tf

    import tfring

    optimizer = tfring.DistributedOptimizer(optimizer)
    optimizer.build(list(variables))
    return tf.function(lambda *gradients: optimizer.apply(gradients, variables))


def overwrite() -> None:
    """Scales of float8 training take the largest value of all ranks."""
    import keras
    import numpy as np
    import tensorflow as tf

    import tfring
    from tfring.variables import assert_identical

    for steps in (None, 2):
        kernel = keras.Variable(np.ones((2, 2), "float32"))
        scale = keras.Variable(np.ones((3,), "float32"))
        scale.overwrite_with_gradient = True
        step = applied(keras.optimizers.SGD(1.0, gradient_accumulation_steps=steps), kernel, scale)
        rank, size = tfring.rank(), tfring.size()
        for extra in (10.0, 0.0)[: steps or 1]:
            step(tf.fill((2, 2), float(rank)), tf.fill((3,), rank + 2.0 + extra))
        np.testing.assert_array_equal(scale, np.full(3, size + 1 + 10.0))
        np.testing.assert_allclose(kernel, np.full((2, 2), 1 - (size - 1) / 2))
        assert_identical([kernel, scale])


@pytest.mark.parametrize(
    "check", [clip, average_and_decay, schedule, accumulate, sparse, buckets, overwrite]
)
def test_optimizer_options(warm_ranks, check) -> None:
    warm_ranks(check)
