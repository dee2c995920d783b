"""Operations inside tf.function: order, loops, branches, many at once."""

from __future__ import annotations

import pytest


def different_orders(steps: int) -> None:
    import numpy as np
    import tensorflow as tf

    import tfring

    rank, size = tfring.rank(), tfring.size()
    count = 24
    # Each rank submits in an order of its own: both as the graph is built, and by delays.
    order = np.random.default_rng(rank).permutation(count)

    @tf.function
    def step(x):
        results = {}
        for index in order:
            delayed = x * float(index)
            for _ in range((index * (rank + 1)) % 7):
                delayed = tf.tanh(delayed * 1e-3) * 1e3
            # Small values pass tanh nearly unchanged; the exact one is taken afterwards.
            exact = x * float(index) + 0.0 * delayed
            results[index] = tfring.allreduce(exact, op=tfring.Sum, name=f"tensor{index}")
        return [results[index] for index in range(count)]

    for number in range(steps):
        results = step(tf.fill([100], float(rank + number)))
        total = sum(r + number for r in range(size))
        for index, result in enumerate(results):
            np.testing.assert_allclose(result, np.full(100, index * total), rtol=1e-6)


def test_ranks_submit_in_different_orders(warm_ranks) -> None:
    warm_ranks(different_orders, 5)


def loops_and_branches() -> None:
    import numpy as np
    import tensorflow as tf

    import tfring

    rank, size = tfring.rank(), tfring.size()
    total = size * (size - 1) / 2

    # Iterations that do not depend on each other, so TensorFlow could run them at once.
    @tf.function
    def independent(x):
        def body(i, sums):
            value = x * tf.cast(i, tf.float32)
            for _ in range(5 * ((rank + 1) % 2)):
                value = tf.sort(value)
            return i + 1, sums.write(i, tfring.allreduce(value, op=tfring.Sum))

        sums = tf.TensorArray(tf.float32, 20)
        return tf.while_loop(lambda i, _: i < 20, body, [0, sums], parallel_iterations=10)[
            1
        ].stack()

    result = independent(tf.fill([50], float(rank)))
    np.testing.assert_array_equal(result[:, 0], [i * total for i in range(20)])

    @tf.function
    def mapped(x):
        return tf.map_fn(lambda row: tfring.allreduce(row, op=tfring.Sum), x)

    rows = tf.cast(tf.range(12), tf.float32) * rank
    np.testing.assert_array_equal(mapped(rows), [i * total for i in range(12)])

    @tf.function
    def branches(x, flag):
        if flag:
            y = tfring.allreduce(x, op=tfring.Sum)
        else:
            y = tfring.broadcast(x, size - 1)
        for _ in tf.range(3):
            y = tfring.allreduce(y)
        return y

    x = tf.constant(float(rank))
    assert branches(x, tf.constant(True)) == total
    assert branches(x, tf.constant(False)) == size - 1

    @tf.function
    def nested(x):
        for i in tf.range(3):
            for j in tf.range(2):
                x = tfring.allreduce(x) + tf.cast(i * j, tf.float32)
        return x

    assert nested(tf.constant(float(rank))) == total / size + 3


def test_loops_and_branches(warm_ranks) -> None:
    warm_ranks(loops_and_branches)


def one_name_keeps_its_order() -> None:
    import tensorflow as tf

    import tfring

    rank, size = tfring.rank(), tfring.size()

    def late(x):
        """Takes its time on even ranks."""
        return tf.reduce_sum(tf.sort(tf.random.uniform([200_000]))) * 0 + x

    @tf.function
    def inner(x):
        return tfring.allreduce(x, op=tfring.Sum)

    # Neither call needs the other's result, so nothing but the name keeps them in order.
    @tf.function
    def outer(x):
        return inner(late(x) if rank % 2 == 0 else x), inner(10.0 * x)

    @tf.function
    def twice(x):
        first = tfring.allreduce(late(x) if rank % 2 else x, op=tfring.Sum, name="same")
        return first, tfring.allreduce(10.0 * x, op=tfring.Sum, name="same")

    for _ in range(5):
        for function in (outer, twice):
            first, second = function(tf.constant(1.0))
            assert (first, second) == (size, 10 * size)


def test_one_name_keeps_its_order(warm_ranks) -> None:
    warm_ranks(one_name_keeps_its_order)


def retraced() -> None:
    import tensorflow as tf

    import tfring

    rank, size = tfring.rank(), tfring.size()

    @tf.function
    def step(x):
        return tfring.allreduce(tf.reduce_sum(x), op=tfring.Sum)

    if rank == 0:  # this rank traces more often, and has more functions
        tf.function(lambda x: tf.map_fn(lambda y: y * 2, x))(tf.ones(3))
        shapes = [1, 2, 3, 4, 2]
    else:
        shapes = [1, 1, 1, 1, 1]
    for shape in shapes:
        total = step(tf.ones(shape) / shape)
        tf.debugging.assert_near(total, float(size))


def test_ranks_trace_different_shapes(warm_ranks) -> None:
    warm_ranks(retraced)


def an_input_still_needed() -> None:
    import numpy as np
    import tensorflow as tf

    import tfring

    size = tfring.size()

    @tf.function
    def step(x):
        y = x * 2.0
        reduced = tfring.allreduce(y, op=tfring.Sum)
        received = tfring.broadcast(y * (tfring.rank() + 1.0), size - 1)
        return y, reduced, tfring.allreduce(x, op=tfring.Sum), received

    x = tf.ones(1000)
    y, reduced, again, received = step(x)
    np.testing.assert_array_equal(x, np.ones(1000))
    np.testing.assert_array_equal(y, 2 * np.ones(1000))
    np.testing.assert_array_equal(reduced, 2 * size * np.ones(1000))
    np.testing.assert_array_equal(again, size * np.ones(1000))
    np.testing.assert_array_equal(received, 2 * size * np.ones(1000))


def test_inputs_still_needed_stay(warm_ranks) -> None:
    warm_ranks(an_input_still_needed)


def many_small_ones() -> None:
    import tensorflow as tf

    import tfring

    @tf.function
    def step(x):
        for _ in tf.range(300):
            x = tfring.allreduce(x)
        return x

    mean = (tfring.size() - 1) / 2
    for _ in range(3):
        tf.debugging.assert_near(step(tf.fill([3], float(tfring.rank()))), tf.fill([3], mean))
    for _ in range(100):
        tfring.barrier()


def test_many_small_ones(warm_ranks) -> None:
    warm_ranks(many_small_ones)


@pytest.mark.parametrize("np", [3])
def test_more_ranks_than_cores(warm_ranks, np: int) -> None:
    warm_ranks(loops_and_branches, np=np)
    warm_ranks(different_orders, 2, np=np)


def init_again() -> None:
    import tensorflow as tf

    import tfring

    @tf.function
    def step(x):
        return tfring.allreduce(x, op=tfring.Sum)

    size = tfring.size()
    assert step(tf.constant(1.0)) == size
    tfring.shutdown()
    try:
        step(tf.constant(1.0))
        raise AssertionError("expected an error")
    except tf.errors.FailedPreconditionError as error:
        assert "init" in error.message
    tfring.init()
    assert step(tf.constant(1.0)) == size


def test_traced_functions_survive_a_new_engine(warm_ranks) -> None:
    warm_ranks(init_again)


def join_after_tracing_alone():
    import os

    import tensorflow as tf

    import tfring
    from tfring.config import Config

    tfring.init(Config.from_environment({}))
    eager = tfring.allreduce(tf.ones(2))
    assert eager.numpy().tolist() == [1.0, 1.0]
    tfring.shutdown()
    assert "TFRING_SIZE" in os.environ
    tfring.init()  # nothing has been traced so far
    tfring.shutdown()
    tfring.init(Config.from_environment({}))
    tf.function(lambda x: tfring.allreduce(x))(tf.ones(2))
    tfring.shutdown()
    try:
        tfring.init()
    except tfring.errors.InvalidArgumentError as error:
        return str(error)
    return "joined"


def test_a_graph_without_reductions_cannot_be_carried_into_a_larger_job(run_ranks):
    for message in run_ranks(join_after_tracing_alone, init=False):
        assert "traced while this process was alone" in message
