"""Operations inside functions that XLA compiles, on several ranks."""

from __future__ import annotations


def mixed_group() -> None:
    import numpy as np
    import tensorflow as tf

    import tfring
    from tfring.op_inputs import DTYPES

    rank, size = tfring.rank(), tfring.size()
    total = size * (size - 1) // 2

    @tf.function(jit_compile=True)
    def step(x):
        group = [tf.cast(x, dtype) for dtype in DTYPES if dtype != tf.bool]
        reduced = tfring.grouped_allreduce([*group, None, tf.transpose(x)], op=tfring.Sum)
        flags = tfring.allreduce(x > 2.0, op=tfring.Max)
        return reduced, flags, tfring.broadcast(x, size - 1), tfring.allgather(x)

    x = tf.reshape(tf.range(6.0), [2, 3]) + float(rank)
    reduced, flags, received, gathered = step(x)
    base = np.arange(6.0).reshape(2, 3)
    for tensor in reduced[:-2]:
        np.testing.assert_array_equal(tf.cast(tensor, tf.float64), size * base + total)
    assert reduced[-2] is None
    np.testing.assert_array_equal(reduced[-1], (size * base + total).T)
    np.testing.assert_array_equal(flags, base + size - 1 > 2)
    np.testing.assert_array_equal(received, base + size - 1)
    np.testing.assert_array_equal(gathered, np.concatenate([base + r for r in range(size)]))


def test_a_mixed_group(warm_ranks) -> None:
    warm_ranks(mixed_group)


def many_calls() -> None:
    import numpy as np
    import tensorflow as tf

    import tfring

    rank, size = tfring.rank(), tfring.size()

    # Calls that need nothing of each other, inside and around loops and branches: each
    # blocks, so one order on all ranks is what keeps them from waiting in different ones.
    @tf.function(jit_compile=True)
    def step(x):
        results = [tfring.allreduce(x * float(i), op=tfring.Sum) for i in range(10)]

        def body(i, y):
            return i + 1, y + tfring.allreduce(x, op=tfring.Sum) + tfring.broadcast(x, size - 1)

        looped = tf.while_loop(lambda i, _: i < 4, body, [0, x], maximum_iterations=4)[1]
        after = [tfring.allreduce(x * float(i), op=tfring.Sum) for i in range(5)]
        chosen = tf.cond(
            tf.reduce_sum(looped) > 0, lambda: tfring.allreduce(x, op=tfring.Sum), lambda: x
        )
        return results, looped, after, chosen

    total = size * (size - 1) / 2
    for _ in range(3):
        results, looped, after, chosen = step(tf.fill([1000], float(rank)))
        for i, result in enumerate([*results, *after]):
            np.testing.assert_array_equal(result, np.full(1000, (i % 10) * total))
        np.testing.assert_array_equal(looped, np.full(1000, rank + 4 * (total + size - 1)))
        np.testing.assert_array_equal(chosen, np.full(1000, total))


def test_many_calls_keep_one_order(warm_ranks) -> None:
    warm_ranks(many_calls)


def some_compile() -> float:
    import tensorflow as tf

    import tfring

    # One rank compiles, the others do not; names and groups are the same.
    @tf.function(jit_compile=tfring.rank() == 0)
    def step(x):
        y, z = tfring.grouped_allreduce([x, tf.cast(x, tf.int32)], op=tfring.Sum)
        return y + tf.cast(z, tf.float32)

    return float(step(tf.constant(1.0)))


def test_ranks_may_differ_in_compiling(warm_ranks, ranks: int) -> None:
    assert warm_ranks(some_compile) == [2.0 * ranks] * ranks


def fit() -> list[list[float]]:
    import keras
    import numpy as np

    import tfring

    class Optimizer(keras.optimizers.Adam):
        def apply(self, grads, trainable_variables=None):
            super().apply(tfring.grouped_allreduce(grads), trainable_variables)

    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(4, activation="relu"), keras.layers.Dense(1)])
    model.compile(Optimizer(0.05), "mse", jit_compile=True, steps_per_execution=2)
    generator = np.random.default_rng(tfring.rank())
    x = generator.normal(size=(64, 3)).astype(np.float32)
    losses = model.fit(x, x.sum(axis=1, keepdims=True), batch_size=16, epochs=5, verbose=0)
    assert losses.history["loss"][-1] < losses.history["loss"][0] / 2
    return [weights.tolist() for weights in model.get_weights()]


def test_fit(warm_ranks, ranks: int) -> None:
    weights = warm_ranks(fit)
    assert all(other == weights[0] for other in weights)
