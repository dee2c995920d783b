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


def buckets_in_the_graph() -> None:
    """A bucket waits for its own gradients only; all that changes waits for all buckets."""
    import keras
    import tensorflow as tf

    from harness import training

    model, loss_fn = training.classifier(), training.loss()
    optimizer = keras.optimizers.AdamW(weight_decay=0.1, use_ema=True)
    apply = applied(optimizer, *model.trainable_variables, bucket_bytes=1)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x))
        return apply.python_function(*tape.gradient(loss, model.trainable_variables))

    graph = step.get_concrete_function(*training.examples(4)).graph
    buckets = [op for op in graph.get_operations() if op.type == "TfringAllreduce"]
    assert len(buckets) == 6
    first = ancestors(buckets[0])
    assert not first & set(buckets)
    assert not [op for op in first if op in {tensor.op for tensor in buckets[-1].inputs[:-1]}]
    changes = [op for op in graph.get_operations() if op.type.startswith("Assign")]
    assert len(changes) >= 6 * 5 + 1  # decay, two slots, update, average; iterations
    for change in changes:
        assert set(buckets) <= ancestors(change), change.name


def ancestors(op) -> set:
    """All operations that run before one."""
    seen: set = set()
    pending = [op]
    while pending:
        current = pending.pop()
        before = {tensor.op for tensor in current.inputs} | set(current.control_inputs)
        pending.extend(before - seen)
        seen |= before
    return seen


def applied(optimizer, *variables, **options):
    """A traced function that applies its arguments."""
    import tensorflow as tf

    import tfring

    optimizer = tfring.DistributedOptimizer(optimizer, **options)
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
    "check",
    [
        clip,
        average_and_decay,
        schedule,
        accumulate,
        sparse,
        buckets,
        buckets_in_the_graph,
        overwrite,
    ],
)
def test_optimizer_options(warm_ranks, check) -> None:
    warm_ranks(check)
