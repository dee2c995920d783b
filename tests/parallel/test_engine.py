"""The engine over real processes, without TensorFlow."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest

from tfring import arrays, engine, errors, objects
from tfring.reduce_op import ReduceOp


def collectives():
    rank, size = engine.rank(), engine.size()
    for dtype in (np.float16, np.float32, np.float64, np.int8, np.int64):
        (total,) = arrays.allreduce_arrays(
            [np.full((3, 2), rank + 1, dtype)], op=ReduceOp.SUM, name=f"sum {dtype.__name__}"
        )
        assert total.dtype == dtype
        assert total.tolist() == [[size * (size + 1) / 2] * 2] * 3
    rows = arrays.allgather_array(np.full((rank, 2), rank), name="rows")
    assert rows.tolist() == [[r, r] for r in range(size) for _ in range(r)]
    (root,) = arrays.broadcast_arrays([np.array([rank])], root_rank=size - 1, name="root")
    assert root.tolist() == [size - 1]
    assert objects.broadcast_object({"from": rank}, size - 1) == {"from": size - 1}
    assert objects.allgather_object("x" * rank) == ["x" * r for r in range(size)]
    with pytest.raises(errors.InvalidArgumentError, match="root_rank"):
        objects.broadcast_object(1, size)
    arrays.barrier()
    return rank


def test_collectives(warm_ranks, ranks):
    assert warm_ranks(collectives) == list(range(ranks))


def generations():
    for round_ in range(20):
        engine.init()
        (total,) = arrays.allreduce_arrays([np.array([round_])], op=ReduceOp.SUM, name="x")
        assert total.tolist() == [round_ * engine.size()]
        engine.shutdown()
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def test_shutdown_and_init_again_leak_nothing(warm_ranks):
    first = warm_ranks(generations, init=False)
    second = warm_ranks(generations, init=False)
    for (files, threads), (files_later, threads_later) in zip(first, second, strict=True):
        assert files_later <= files
        assert threads_later <= threads


def mismatch():
    count = 3 if engine.rank() == 0 else 4
    with pytest.raises(errors.MismatchError) as raised:
        arrays.allreduce_arrays([np.ones(count, np.float32)], name="grads")
    return str(raised.value)


def test_mismatch_names_tensor_and_ranks_everywhere(warm_ranks):
    for message in warm_ranks(mismatch, np=3):
        assert '"grads"' in message
        assert "rank 0: allreduce float32 [3]" in message
        assert "rank 1, 2: allreduce float32 [4]" in message


def until_lost(how: int):
    engine.init()
    arrays.barrier()
    if engine.rank() == 1:
        os.kill(os.getpid(), how)
        time.sleep(60)
    start = time.monotonic()
    with pytest.raises(errors.PeerLostError) as raised:
        arrays.allreduce_arrays([np.ones(1000, np.float32)], name="x")
    with pytest.raises(errors.PeerLostError):
        engine.check_health()
    engine.shutdown()
    return str(raised.value), time.monotonic() - start


def test_a_killed_rank_is_named_on_every_survivor(run_ranks):
    results = run_ranks(until_lost, signal.SIGKILL, np=3, bare=True, init=False, may_die=[1])
    for message, _ in (results[0], results[2]):
        assert "lost rank 1" in message


def test_a_rank_that_hangs_is_found_by_its_silence(run_ranks):
    results = run_ranks(
        until_silent, np=3, bare=True, init=False, env={"TFRING_HEARTBEAT_TIMEOUT_S": "1"}
    )
    for rank in (0, 2):
        assert "lost rank 1: no sign of life" in results[rank]


def until_silent():
    """Rank 1 stops; a child of its own lets it go on when the others have noticed."""
    engine.init()
    arrays.barrier()
    if engine.rank() == 1:
        os.system(f"(sleep 4; kill -CONT {os.getpid()}) & kill -STOP {os.getpid()}")
        engine.shutdown()
        return "stopped"
    with pytest.raises(errors.PeerLostError) as raised:
        arrays.allreduce_arrays([np.ones(1000, np.float32)], name="x")
    engine.shutdown()
    return str(raised.value)


def leave_early():
    engine.init()
    arrays.barrier()
    if engine.rank() == 1:
        engine.shutdown()
        return ""
    with pytest.raises(errors.PeerLostError) as raised:
        arrays.allreduce_arrays([np.ones(1000, np.float32)], name="x")
    engine.shutdown()
    return str(raised.value)


def test_a_rank_that_leaves_early_is_named(warm_ranks):
    messages = warm_ranks(leave_early, np=3, init=False)
    for rank in (0, 2):
        assert "rank 1 has shut down" in messages[rank]


def join():
    try:
        engine.init()
    except errors.TfringError as error:
        return type(error).__name__, str(error)
    engine.shutdown()
    return "joined", ""


def test_a_wrong_secret_is_refused_and_missing_ranks_are_named(run_ranks):
    results = run_ranks(
        join_with_wrong_secret,
        np=3,
        bare=True,
        init=False,
        env={"TFRING_START_TIMEOUT_S": "5"},
    )
    kind, message = results[2]
    assert kind == "AuthenticationError"
    for kind, message in results[:2]:
        assert kind == "RendezvousTimeoutError"
        assert "rank 2" in message


def join_with_wrong_secret():
    if os.environ["TFRING_RANK"] == "2":
        os.environ["TFRING_SECRET"] = "wrong"
    return join()
