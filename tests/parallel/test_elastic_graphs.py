"""Functions that were traced in one generation of an elastic job are right in the next ones."""

from __future__ import annotations

import dataclasses

import pytest

from tfring import engine
from tfring.config import Config


def _traced():
    """A function with all that could depend on rank and size, and how often it was traced."""
    import tensorflow as tf

    import tfring

    traces = []

    @tf.function
    def step(value, rows):
        traces.append(1)
        mean = tfring.allreduce(value)
        with tf.GradientTape() as tape:
            tape.watch(rows)
            gathered = tfring.allgather(rows)
            # Row i of all counts i + 1 times.
            weights = tf.range(1.0, tf.cast(tf.shape(gathered)[0], tf.float32) + 1)
            loss = tf.reduce_sum(gathered * weights[:, None])
        rows_gradient = tape.gradient(loss, rows)
        with tf.GradientTape() as tape:
            tape.watch(value)
            loss = 10.0 * tfring.broadcast(value, root_rank=0)
        value_gradient = tape.gradient(loss, value)
        slices = tfring.allreduce(
            tf.IndexedSlices(rows, tf.range(tf.shape(rows)[0]), tf.constant([4, 1]))
        )
        summed = tf.math.unsorted_segment_sum(slices.values[:, 0], slices.indices, 4)
        return mean, gathered, rows_gradient, value_gradient, summed

    return step, traces


def survivors(generations: list[list[int]]) -> list[int]:
    """Each generation is a list of those processes that are in it, by rank."""
    import tensorflow as tf

    place = dataclasses.replace(Config.from_environment(), elastic=True, worker_id="w")
    me = place.rank
    engine.init(place)
    step, traces = _traced()
    for number, members in enumerate(generations, start=1):
        if me not in members:
            continue
        rank, size = members.index(me), len(members)
        engine.join(
            dataclasses.replace(
                place, generation=number, rank=rank, size=size, local_rank=rank, local_size=size
            )
        )
        mean, gathered, rows_gradient, value_gradient, summed = (
            tensor.numpy().tolist()
            for tensor in step(tf.constant(float(me)), tf.constant([[float(me)], [1.0]]))
        )
        total = float(sum(members))
        assert mean == pytest.approx(total / size)
        assert gathered == [[row] for member in members for row in (float(member), 1.0)]
        # All losses: size times each weight.
        assert rows_gradient == [[size * (2.0 * rank + 1)], [size * (2.0 * rank + 2)]]
        assert value_gradient == (10.0 * size if rank == 0 else 0.0)
        assert summed == pytest.approx([total / size, 1.0, 0.0, 0.0])
    graph = step.get_concrete_function(tf.constant(0.0), tf.constant([[0.0], [1.0]])).graph
    operations = [op.type for op in graph.get_operations() if op.type.startswith("Tfring")]
    engine.shutdown()
    return [len(traces), len(operations)]


def test_nothing_of_rank_and_size_is_in_a_graph(run_ranks):
    """Also where a function was traced by one process alone that is rank 2 later."""
    generations = [[2], [0, 1], [1, 0], [1], [2, 1], [0, 1, 2], [2]]
    counts = run_ranks(survivors, generations, np=3, bare=True, init=False, timeout_s=60)
    assert [traces for traces, _ in counts] == [1, 1, 1]
    assert len({operations for _, operations in counts}) == 1


def in_xla() -> str:
    import tensorflow as tf

    import tfring

    engine.init(
        Config.from_environment(rank=0, size=1, elastic=True, worker_id="w", store="localhost:1")
    )
    gather = tf.function(lambda x: tfring.allgather(x), jit_compile=True)
    with pytest.raises(NotImplementedError, match="elastic job change") as raised:
        gather(tf.ones([2]))
    engine.shutdown()
    return str(raised.value)


def test_xla_would_keep_the_size(run_ranks):
    assert "jit_compile=False" in run_ranks(in_xla, np=1, bare=True, init=False)[0]
