"""Backpropagation ends early when the members of an elastic job change in the middle of it."""

from __future__ import annotations

import dataclasses

from tfring import engine
from tfring.config import Config

LAYERS = 20


def _join(elastic: bool) -> None:
    place = dataclasses.replace(
        Config.from_environment(rank=0, size=1), elastic=elastic, worker_id="w", generation=1
    )
    if elastic:
        engine.init(place)
        engine.join(dataclasses.replace(place, store="", rank=0, size=1))
    else:
        engine.init(place)


def interrupted(by_tape: bool) -> list[str]:
    """Which of three layers backpropagation gets to when the generation ends in the second."""
    import numpy as np
    import tensorflow as tf

    import tfring
    from tfring import native

    reached = []

    def layer(name):
        @tf.custom_gradient
        def identity(x):
            def gradient(upstream):
                def note(value):
                    reached.append(name)
                    if name == "second" and len(reached) == 5:
                        native.load().tfr_interrupt(1, b"a test wants it")
                    return value

                return tf.ensure_shape(tf.numpy_function(note, [upstream], tf.float32), x.shape)

            return tf.identity(x), gradient

        return identity

    _join(elastic=True)
    variable = tf.Variable([1.0, 2.0])
    optimizer = tfring.DistributedOptimizer(tf.keras.optimizers.SGD(0.5))
    optimizer.build([variable])

    @tf.function
    def step():
        tape = tf.GradientTape()
        if by_tape:
            tape = tfring.DistributedGradientTape(tape)
        with tape:
            x = variable
            for name in ("third", "second", "first"):
                x = layer(name)(2.0 * x)
            loss = tf.reduce_sum(x)
        optimizer.apply(tape.gradient(loss, [variable]), [variable])

    step()
    np.testing.assert_allclose(variable.numpy(), [-3.0, -2.0])
    try:
        step()
    except tf.errors.AbortedError as error:
        assert "a test wants it" in str(error)
    np.testing.assert_allclose(variable.numpy(), [-3.0, -2.0])
    engine.shutdown()
    return reached


def test_the_rest_is_not_computed(run_ranks) -> None:
    for by_tape in (True, False):
        [reached] = run_ranks(interrupted, by_tape, np=1, bare=True, init=False)
        assert reached == ["first", "second", "third", "first", "second"]


def checks_of_a_deep_model(elastic: bool) -> int:
    """Checks in the graph of a step."""
    import keras
    import numpy as np
    import tensorflow as tf

    import tfring

    _join(elastic)
    model = keras.Sequential([keras.Input((2,))])
    for _ in range(LAYERS):
        model.add(keras.layers.Dense(2, activation="relu"))
    traced = []

    class Model(keras.Model):
        def train_step(self, data):
            result = super().train_step(data)
            operations = tf.compat.v1.get_default_graph().get_operations()
            traced.append(sum(op.type == "TfringHealth" for op in operations))
            return result

    model = Model(model.inputs, model.outputs)
    model.compile(tfring.DistributedOptimizer("sgd"), "mse")
    model.fit(np.ones((8, 2)), np.ones((8, 2)), batch_size=2, epochs=2, verbose=0)
    engine.shutdown()
    return traced[-1]


def test_there_are_not_too_many_of_them(run_ranks) -> None:
    [checks] = run_ranks(checks_of_a_deep_model, True, np=1, bare=True, init=False)
    assert 20 < checks <= 32
    [checks] = run_ranks(checks_of_a_deep_model, False, np=1, bare=True, init=False)
    assert checks == 0


def in_a_loop() -> list[float]:
    """Steps in the body of a loop of a function, and several in one execution of `fit`."""
    import keras
    import numpy as np
    import tensorflow as tf

    import tfring

    _join(elastic=True)
    variable = tf.Variable([1.0, 2.0])
    optimizer = tfring.DistributedOptimizer(keras.optimizers.SGD(0.5))
    optimizer.build([variable])

    @tf.function
    def steps(count):
        for _ in tf.range(count):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.tanh(tf.nn.relu(variable) * 2.0))
            optimizer.apply(tape.gradient(loss, [variable]), [variable])

    steps(tf.constant(3))
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2), keras.layers.Dense(1)])
    model.compile(tfring.DistributedOptimizer("sgd"), "mse", steps_per_execution=3)
    model.fit(np.ones((18, 2)), np.ones(18), batch_size=2, verbose=0)
    assert int(model.optimizer.iterations) == 9
    engine.shutdown()
    return variable.numpy().tolist()


def test_steps_in_loops_have_them_too(run_ranks) -> None:
    import numpy as np

    expected = np.array([1.0, 2.0])
    for _ in range(3):
        positive = np.maximum(expected, 0)
        expected = expected - 0.5 * 2 * (1 - np.tanh(2 * positive) ** 2) * (expected > 0)
    [values] = run_ranks(in_a_loop, np=1, bare=True, init=False)
    np.testing.assert_allclose(values, expected, rtol=1e-5)
