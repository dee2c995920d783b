"""A disagreement is an error on every rank, and says what each rank asked for."""

from __future__ import annotations

import pytest


def disagree(kind: str, jit_compile: bool | None) -> str:
    """Runs an operation in which the last rank differs; returns this rank's error."""
    import tensorflow as tf

    import tfring

    other = tfring.rank() == tfring.size() - 1

    def operation(x):
        if kind == "shape":
            return tfring.allreduce(tf.ones([3 if other else 2]) + x, name="mine")
        if kind == "dtype":
            value = tf.cast(x, tf.float64 if other else tf.float32)
            return tf.cast(tfring.allreduce(value, name="mine"), tf.float32)
        if kind == "op":
            return tfring.allreduce(x, op=tfring.Max if other else tfring.Sum, name="mine")
        if kind == "root":
            return tfring.broadcast(x, 1 if other else 0, name="mine")
        if kind == "factor":
            return tfring.allreduce(x, prescale_factor=2.0 if other else 1.0, name="mine")
        if kind == "count":
            return tfring.grouped_allreduce([x] * (3 if other else 2), name="mine")[0]
        assert kind == "columns"
        return tfring.allgather(tf.ones([2, 3 if other else 2]) + x, name="mine")

    step = operation
    if jit_compile is not None:
        step = tf.function(operation, jit_compile=jit_compile)
    try:
        step(tf.constant(1.0))
    except (tf.errors.InvalidArgumentError, tf.errors.InternalError) as error:
        assert jit_compile or isinstance(error, tf.errors.InvalidArgumentError), error
        message = error.message
    else:
        raise AssertionError("expected an error")
    # Nothing is broken: the next operation runs, under the same name too.
    result = tfring.allreduce(tf.constant(1.0), op=tfring.Sum, name="mine")
    assert result == tfring.size()
    return message


WORDS = {
    "shape": ["[2]", "[3]"],
    "dtype": ["float32", "float64"],
    "op": ["um", "ax"],
    "root": ["root 0", "root 1"],
    "factor": ["prescale 2"],
    "count": ["allreduce"],
    "columns": ["[*, 2]", "[*, 3]"],
}


@pytest.mark.parametrize("jit_compile", [None, False, True], ids=["eager", "graph", "xla"])
@pytest.mark.parametrize("kind", WORDS)
def test_disagreement(warm_ranks, ranks: int, kind: str, jit_compile: bool | None) -> None:
    messages = warm_ranks(disagree, kind, jit_compile)
    for message in messages:
        assert '"mine"' in message
        for word in [*WORDS[kind], *(str(rank) for rank in range(ranks))]:
            assert word in message, (word, message)


def a_group_of_other_types() -> str:
    import tensorflow as tf

    import tfring

    last = tf.float64 if tfring.rank() == 0 else tf.float32
    try:
        tfring.grouped_allreduce([tf.ones(2), tf.ones(3, last)], name="mine")
    except tf.errors.InvalidArgumentError as error:
        return error.message
    raise AssertionError("expected an error")


def test_a_group_of_other_types(run_ranks) -> None:
    for message in run_ranks(a_group_of_other_types, env={"TFRING_STALL_SHUTDOWN_S": "5"}):
        assert '"mine"' in message


def uneven_rows_under_xla() -> str:
    import tensorflow as tf

    import tfring

    step = tf.function(lambda x: tfring.allgather(x, name="rows"), jit_compile=True)
    assert step(tf.ones([2, 3])).shape == (2 * tfring.size(), 3)
    try:
        step(tf.ones([tfring.rank() + 1, 3]))
    except tf.errors.InternalError as error:
        return error.message
    raise AssertionError("expected an error")


def test_uneven_rows_under_xla(warm_ranks) -> None:
    for message in warm_ranks(uneven_rows_under_xla):
        assert 'allgather "rows"' in message and "the same first dimension" in message


def leave_early(jit_compile: bool) -> str:
    import os

    import numpy as np
    import tensorflow as tf

    import tfring

    variable = tf.Variable([1.0, 2.0])

    @tf.function(jit_compile=jit_compile)
    def step():
        total = tfring.allreduce(variable, op=tfring.Sum)
        variable.assign(total)
        return total

    step()
    before = variable.numpy()
    if tfring.rank() == 1:
        os._exit(7)
    try:
        step()
    except (tf.errors.AbortedError, tf.errors.InternalError) as error:
        assert jit_compile or isinstance(error, tf.errors.AbortedError), error
        np.testing.assert_array_equal(variable, before)
        return error.message
    raise AssertionError("expected an error")


@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "xla"])
def test_a_lost_rank_is_named(run_ranks, jit_compile: bool) -> None:
    results = run_ranks(leave_early, jit_compile, np=3, bare=True, may_die=(1,))
    for rank in (0, 2):
        assert "rank 1" in results[rank]


def never_submit(done: str) -> str:
    import time
    from pathlib import Path

    import tensorflow as tf

    import tfring

    if tfring.rank() == 1:
        deadline = time.monotonic() + 60
        while not Path(done).exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        return ""
    message = ""
    for operation in (tfring.allreduce, tf.function(tfring.allreduce)):
        try:
            operation(tf.ones(2), name="lonely")
            raise AssertionError("expected an error")
        except tf.errors.DeadlineExceededError as error:
            message = error.message
    Path(done).touch()
    return message


def test_a_stall_names_the_missing_ranks(run_ranks, tmp_path) -> None:
    env = {"TFRING_STALL_WARNING_S": "0.5", "TFRING_STALL_SHUTDOWN_S": "1.5"}
    message = run_ranks(never_submit, str(tmp_path / "done"), np=2, env=env)[0]
    assert '"lonely"' in message and "not submitted by rank 1" in message


def shut_down_while_pending() -> str:
    import threading

    import tensorflow as tf

    import tfring

    if tfring.rank() == 1:
        try:
            tfring.barrier(name="end")
        except tf.errors.AbortedError as error:  # rank 0 has left
            return error.message
    step = tf.function(lambda x: tfring.allreduce(x, name="pending"))
    threading.Timer(1.0, tfring.shutdown).start()
    try:
        step(tf.ones(2))
    except tf.errors.CancelledError as error:
        return error.message
    raise AssertionError("expected an error")


def test_shutdown_cancels(run_ranks) -> None:
    results = run_ranks(shut_down_while_pending, np=2)
    assert '"pending"' in results[0]
    assert "rank 0" in results[1]


def wrong_set() -> None:
    import numpy as np
    import tensorflow as tf

    import tfring

    stale = tfring.add_process_set(range(tfring.size()))
    tfring.shutdown()
    tfring.init()
    if stale.process_set_id != 0:
        with np.testing.assert_raises_regex(tf.errors.InvalidArgumentError, "process set"):
            tfring.allreduce(tf.ones(2), process_set=stale)


def test_a_set_of_an_engine_that_is_gone(warm_ranks) -> None:
    warm_ranks(wrong_set)
