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
