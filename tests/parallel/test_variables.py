"""Broadcasting variables, and noticing when ranks differ."""

from __future__ import annotations

import pytest


def broadcast_every_type() -> None:
    import keras
    import numpy as np
    import tensorflow as tf

    import tfring
    from tfring.variables import assert_identical

    root = tfring.size() - 1

    def make(rank):
        generator = np.random.default_rng(rank)
        types = "float16 bfloat16 float32 float64 int8 uint8 int32 int64 uint16 uint32 uint64"
        variables = [
            tf.Variable(tf.cast(generator.integers(0, 90, (3, 2)).astype("float32"), dtype))
            for dtype in (*types.split(), "complex64", "complex128", "float8_e4m3fn", "float8_e5m2")
        ]
        variables += [
            tf.Variable(generator.integers(0, 2, 7).astype(bool)),
            tf.Variable(np.zeros((0, 3), "float32")),
            tf.Variable(float(rank)),
            keras.Variable(generator.standard_normal(4)),
            keras.Variable(rank, dtype="int64"),
            keras.Variable(rank > 0, dtype="bool"),
        ]
        return variables

    def broadcast(variables, root, traced):
        def call():
            tfring.broadcast_variables(variables, root)

        (tf.function(call) if traced else call)()

    def bits(variables):
        return [tf.convert_to_tensor(variable).numpy().tobytes() for variable in variables]

    for traced in (False, True):
        variables = make(tfring.rank())
        broadcast(variables, root, traced)
        assert bits(variables) == bits(make(root))
        assert_identical(variables)
    tfring.broadcast_variables([])
    with pytest.raises(TypeError, match=r"expected a keras.Variable or tf.Variable, received 3"):
        tfring.broadcast_variables([3])
    with pytest.raises(TypeError, match="holds string"):
        tfring.broadcast_variables([tf.Variable("text")])
    with pytest.raises(ValueError, match="root_rank"):
        tfring.broadcast_variables([tf.Variable(1.0)], root_rank=tfring.size())


def broadcast_a_model() -> None:
    """Everything that must be the same, nothing that must differ."""
    import keras
    import numpy as np

    import tfring
    from tfring.variables import assert_identical, training_state, weights_digest

    keras.utils.set_random_seed(tfring.rank())
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dropout(0.5, seed=tfring.rank())]
    )
    with pytest.raises(ValueError, match="has no weights yet"):
        training_state(keras.Sequential([keras.layers.Dense(1)]))
    assert training_state(model) == model.weights
    model.compile(tfring.DistributedOptimizer("adam"), "mse", metrics=["mae"])
    assert not model.optimizer.built
    state = training_state(model)
    assert model.optimizer.built and len(state) == 2 + 2 + 4
    model.optimizer.learning_rate = 0.1 + tfring.rank()

    seed = model.layers[-1].seed_generator.state.numpy()
    digest = weights_digest(model.weights)
    with pytest.raises(tfring.errors.MismatchError, match="on rank"):
        assert_identical(state)
    tfring.broadcast_variables(state)
    assert_identical(state)
    np.testing.assert_array_equal(model.layers[-1].seed_generator.state, seed)
    np.testing.assert_allclose(model.optimizer.learning_rate, 0.1)
    assert (weights_digest(model.weights) == digest) == (tfring.rank() == 0)


def differences_name_variable_and_ranks() -> None:
    import tensorflow as tf

    import tfring
    from tfring.variables import assert_identical

    odd = tfring.size() - 1
    same = tf.Variable([1.0, 2.0], name="same")
    differs = tf.Variable([0.0], name="differs")
    if tfring.rank() == odd:
        differs.assign([-0.0])  # equal, but not the same bits
    assert_identical([same])
    with pytest.raises(
        tfring.errors.MismatchError, match=rf"1 of 2 .*differs.*number 1\) on rank {odd}"
    ):
        assert_identical([same, differs])
    with pytest.raises(tfring.errors.MismatchError, match=rf"1 on rank {odd}"):
        assert_identical([same] if tfring.rank() == odd else [same, same])
    assert_identical([])


def different_shapes_are_an_error() -> None:
    import numpy as np
    import tensorflow as tf

    import tfring

    variable = tf.Variable(np.full(3 + tfring.rank(), tfring.rank(), "float32"))
    with pytest.raises(tf.errors.OpError, match="rank"):
        tfring.broadcast_variables([variable])
    assert (variable.numpy() == tfring.rank()).all()


@pytest.mark.parametrize(
    "check",
    [
        broadcast_every_type,
        broadcast_a_model,
        differences_name_variable_and_ranks,
        different_shapes_are_an_error,
    ],
)
def test_variables(warm_ranks, check) -> None:
    warm_ranks(check)
