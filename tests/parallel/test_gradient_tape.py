"""The tape: gradients of all ranks, in the structure of the sources."""

from __future__ import annotations

import pytest


def gradients_in_any_structure() -> None:
    import keras
    import numpy as np
    import tensorflow as tf

    import tfring

    rank, size = tfring.rank(), tfring.size()
    mean = (size - 1) / 2
    kernel = keras.Variable(np.ones((2, 3), "float32"), name="kernel")
    bias = tf.Variable(np.ones(3, "float32"), name="bias")
    unused = tf.Variable(1.0)
    table = tf.Variable(np.ones((5, 2), "float32"))

    def loss():
        rows = tf.gather(table, [rank, rank + 1])
        return tf.reduce_sum(kernel * rank) + tf.reduce_sum(bias * rank * 2) + tf.reduce_sum(rows)

    def check(gradients):
        np.testing.assert_allclose(gradients["kernel"], np.full((2, 3), mean))
        assert isinstance(gradients["others"], tuple)
        np.testing.assert_allclose(gradients["others"][0], np.full(3, mean * 2))
        assert gradients["others"][1] is None
        slices = gradients["table"]
        assert isinstance(slices, tf.IndexedSlices) and slices.indices.shape == (2 * size,)
        dense = sum(np.eye(5)[[r, r + 1]].sum(0) for r in range(size)) / size
        np.testing.assert_allclose(
            tf.convert_to_tensor(slices), np.stack([dense] * 2, 1), rtol=1e-6
        )

    sources = {"kernel": kernel, "others": (bias, unused), "table": table}
    with tf.GradientTape(persistent=True) as tape:
        value = loss()
    tape = tfring.DistributedGradientTape(tape)
    check(tape.gradient(value, sources))
    check(tape.gradient(value, sources))  # persistent
    with tfring.DistributedGradientTape(tf.GradientTape(), sparse_as_dense=True) as tape:
        value = loss()
    assert len(tape.watched_variables()) == 3  # the tape's own
    single = tape.gradient(value, table)
    assert isinstance(single, tf.Tensor)

    with tfring.DistributedGradientTape(tf.GradientTape(), op=tfring.Sum) as tape:
        value = loss()
    np.testing.assert_allclose(tape.gradient(value, [bias])[0], np.full(3, mean * 2 * size))

    with tfring.DistributedGradientTape(tf.GradientTape()) as tape:
        value = loss()
    zero = tape.gradient(value, unused, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    assert float(zero) == 0.0


def training_loop() -> None:
    """In tf.function, with a plain optimizer and with a distributed one."""
    import keras
    import tensorflow as tf

    import tfring
    from harness import training
    from tfring.variables import assert_identical

    def train(optimizer, wrap, x, y, batch):
        model, loss_fn = training.classifier(), training.loss()
        optimizer.build(model.trainable_variables)

        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = loss_fn(y, model(x, training=True))
            tape = wrap(tape)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply(gradients, model.trainable_variables)

        for start in range(0, len(x), batch):
            step(x[start : start + batch], y[start : start + batch])
        return model

    def make():
        return keras.optimizers.Adam(0.01, global_clipnorm=0.5)

    x, y = training.examples(6 * 4 * tfring.size())
    own = training.mine(x, 4), training.mine(y, 4), 4
    tape = tfring.DistributedGradientTape
    reference = train(make(), lambda tape: tape, x, y, 4 * tfring.size())
    for optimizer in (make(), tfring.DistributedOptimizer(make())):
        models = []
        count = training.reductions(lambda o=optimizer, m=models: m.append(train(o, tape, *own)))
        assert count == 6
        training.assert_close(models[0], reference)
        assert_identical([*models[0].weights, *optimizer.variables])


def inside_xla() -> None:
    import numpy as np
    import tensorflow as tf

    import tfring

    variable = tf.Variable([1.0, 2.0])

    @tf.function(jit_compile=True)
    def gradient(factor):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variable * factor)
        return tfring.DistributedGradientTape(tape).gradient(loss, variable)

    mean = (tfring.size() - 1) / 2
    np.testing.assert_allclose(gradient(tf.constant(float(tfring.rank()))), [mean, mean])


@pytest.mark.parametrize("check", [gradients_in_any_structure, training_loop, inside_xla])
def test_gradient_tape(warm_ranks, check) -> None:
    warm_ranks(check)
