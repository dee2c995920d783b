"""tf.IndexedSlices: gathered, or made dense."""

from __future__ import annotations

import pytest


def reduce_slices(mode: str) -> None:
    import numpy as np
    import tensorflow as tf

    import tfring

    rank, size = tfring.rank(), tfring.size()

    def slices_of(r: int, scale: float = 1.0) -> tf.IndexedSlices:
        rows = r + 1 if r else 0  # rank 0 brings none
        values = tf.reshape(tf.range(rows * 2, dtype=tf.float32), [rows, 2]) + float(r)
        indices = tf.cast((tf.range(rows) * 2 + r) % 5, tf.int64)
        return tf.IndexedSlices(values * scale, indices, tf.constant([5, 2], tf.int64))

    def dense(r: int):
        return tf.convert_to_tensor(slices_of(r)).numpy()

    def step(x):
        group = [x, slices_of(rank), None, slices_of(rank, 2.0), tf.cast(x, tf.float64)]
        return [
            tfring.grouped_allreduce(group, op=op, sparse_as_dense=as_dense, prescale_factor=3.0)
            for op in (tfring.Sum, tfring.Average)
            for as_dense in (False, True)
        ]

    if mode != "eager":
        step = tf.function(step, jit_compile=mode == "xla")
    results = step(tf.fill([3], float(rank)))
    total = 3 * sum(dense(r) for r in range(size))
    for number, result in enumerate(results):
        divisor = size if number >= 2 else 1
        is_dense = number % 2 == 1 or mode == "xla"
        assert isinstance(result[1], tf.IndexedSlices) != is_dense
        assert result[2] is None
        np.testing.assert_allclose(tf.convert_to_tensor(result[1]), total / divisor, rtol=1e-6)
        np.testing.assert_allclose(tf.convert_to_tensor(result[3]), 2 * total / divisor, rtol=1e-6)
        expected = 3 * size * (size - 1) / 2 / divisor
        np.testing.assert_allclose(result[0], [expected] * 3, rtol=1e-6)
        np.testing.assert_allclose(result[4], [expected] * 3)
        if not is_dense:
            assert result[1].values.shape[0] == sum(r + 1 for r in range(1, size))
            assert result[1].indices.dtype == tf.int64


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_slices(warm_ranks, mode: str) -> None:
    warm_ranks(reduce_slices, mode)


def embedding_gradient() -> None:
    import numpy as np
    import tensorflow as tf

    import tfring

    rank, size = tfring.rank(), tfring.size()
    table = tf.Variable(tf.ones([10, 4]))

    @tf.function
    def step(rows):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, rows))
        gradient = tape.gradient(loss, table)
        assert isinstance(gradient, tf.IndexedSlices)
        return tfring.allreduce(gradient)

    gradient = tf.convert_to_tensor(step(tf.range(rank + 1)))
    expected = np.zeros([10, 4])
    for r in range(size):
        expected[: r + 1] += 1 / size
    np.testing.assert_allclose(gradient, expected, rtol=1e-6)


def test_embedding_gradient(warm_ranks) -> None:
    warm_ranks(embedding_gradient)
