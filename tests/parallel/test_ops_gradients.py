"""Gradients against finite differences of the sum of all ranks' losses."""

from __future__ import annotations

import pytest


def check_gradients(kind: str, mode: str) -> None:
    import numpy as np
    import tensorflow as tf

    import tfring

    rank, size = tfring.rank(), tfring.size()
    rows = 2 if mode == "xla" else rank + 1
    shape = {"allgather": [rows, 3], "scalars": []}.get(kind, [2, 3])

    def loss(x):
        y = x * x * (rank + 1.0)
        if kind in ("allgather", "scalars"):
            y = tfring.allgather(y)
        elif kind == "broadcast":
            y = tfring.broadcast(y, size - 1)
        elif kind == "grouped":
            y, z = tfring.grouped_allreduce([y, tf.sin(x)], op=tfring.Sum, prescale_factor=0.5)
            y = y * z
        elif kind == "loop":
            y = tf.while_loop(
                lambda i, _: i < 3,
                lambda i, y: [i + 1, tf.tanh(tfring.allreduce(y))],
                [0, y],
                maximum_iterations=3,
            )[1]
        else:
            y = tfring.allreduce(y, op=getattr(tfring, kind))
        weights = tf.cast(tf.range(tf.size(y)) + rank, y.dtype)
        return tf.reduce_sum(tf.reshape(y, [-1]) * weights)

    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = loss(x)
        return tape.gradient(value, x)

    def total_loss(x):
        return tfring.allreduce(loss(x), op=tfring.Sum, name="total")

    if mode != "eager":
        compiled = mode == "xla"
        gradient = tf.function(gradient, jit_compile=compiled)
        total_loss = tf.function(total_loss, jit_compile=compiled)
    generator = np.random.default_rng(rank)
    x = generator.normal(size=shape)
    analytic = gradient(tf.constant(x)).numpy()
    assert analytic.shape == x.shape
    # One element of one rank is moved at a time; every rank takes part each time.
    step = 1e-6
    for owner in range(size):
        count = int(tfring.broadcast(tf.constant(x.size), owner))
        for element in range(count):
            losses = []
            for sign in (1, -1):
                moved = x.copy()
                if rank == owner:
                    moved.reshape(-1)[element] += sign * step
                losses.append(float(total_loss(tf.constant(moved))))
            if rank == owner:
                numeric = (losses[0] - losses[1]) / (2 * step)
                np.testing.assert_allclose(
                    analytic.reshape(-1)[element], numeric, rtol=1e-5, atol=1e-7
                )


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
@pytest.mark.parametrize(
    "kind", ["Sum", "Average", "grouped", "allgather", "scalars", "broadcast", "loop"]
)
def test_gradient(warm_ranks, kind: str, mode: str) -> None:
    warm_ranks(check_gradients, kind, mode)


def second_derivative() -> None:
    import numpy as np
    import tensorflow as tf

    import tfring

    size = tfring.size()
    x = tf.Variable(float(tfring.rank() + 1))
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = tfring.allreduce(x**3, op=tfring.Sum)
        first = inner.gradient(y, x)
    np.testing.assert_allclose(first, size * 3 * x**2)
    np.testing.assert_allclose(outer.gradient(first, x), size * 6 * x)


def test_second_derivative(warm_ranks) -> None:
    warm_ranks(second_derivative)


def an_inner_function_called_twice() -> None:
    import tensorflow as tf

    import tfring

    rank, size = tfring.rank(), tfring.size()

    def late_gradient(x, when: bool):
        """x, whose gradient takes its time `when`."""

        @tf.custom_gradient
        def identity(x):
            def gradient(dy):
                if when:
                    dy += 0 * tf.reduce_sum(tf.sort(tf.random.uniform([100_000])))
                return dy

            return tf.identity(x), gradient

        return identity(x)

    @tf.function
    def inner(x, kind):
        if kind == "allreduce":
            return tfring.allreduce(x, op=tfring.Sum)
        if kind == "broadcast":
            return tfring.broadcast(x, size - 1)
        return tf.reduce_sum(tfring.allgather(x))

    # The gradients of the two calls need nothing of each other, and TensorFlow does not order
    # them where the tape is outside: one rank comes to the first of them first, one to the
    # other. They must not be taken for each other.
    @tf.function
    def outer(x, kind):
        first, second = inner(x, kind), inner(10.0 * x, kind)
        first = late_gradient(first, rank % 2 == 0)
        return 2.0 * first + 3.0 * late_gradient(second, rank % 2 == 1)

    x = tf.Variable(1.0)
    for kind in ("allreduce", "broadcast", "allgather"):
        expected = 0.0 if kind == "broadcast" and rank < size - 1 else size * (2.0 + 30.0)
        for _ in range(6):
            with tf.GradientTape() as tape:
                loss = outer(x, kind)
            assert tape.gradient(loss, x) == expected, kind


def test_an_inner_function_called_twice(warm_ranks) -> None:
    warm_ranks(an_inner_function_called_twice)
