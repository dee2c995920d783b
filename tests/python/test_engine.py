"""The engine's life in one process. Several ranks: tests/parallel/test_engine.py."""

from __future__ import annotations

import multiprocessing
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from tfring import arrays, engine, objects
from tfring.config import Config
from tfring.errors import InvalidArgumentError, NotInitializedError, TfringError
from tfring.reduce_op import ReduceOp


@pytest.fixture
def alone():
    engine.shutdown()
    engine.init(Config.from_environment({}))
    yield
    engine.shutdown()


def test_place_alone(alone):
    assert engine.is_initialized()
    assert (engine.rank(), engine.size()) == (0, 1)
    assert (engine.local_rank(), engine.local_size()) == (0, 1)
    assert (engine.cross_rank(), engine.cross_size()) == (0, 1)
    engine.check_health()


def test_init_again_with_the_same_settings_does_nothing(alone):
    engine.init(Config.from_environment({}))
    with pytest.raises(InvalidArgumentError, match="other settings"):
        engine.init(Config.from_environment({}, stall_warning_s=1))


def test_after_shutdown_nothing_works_until_init():
    engine.shutdown()
    engine.shutdown()
    for function in (engine.rank, engine.size, engine.check_health, arrays.barrier):
        with pytest.raises(NotInitializedError, match=r"tfring\.init"):
            function()
    engine.init(Config.from_environment({}))
    assert engine.size() == 1
    engine.shutdown()


def test_collectives_alone(alone):
    (result,) = arrays.allreduce_arrays([np.arange(6.0).reshape(2, 3)], op=ReduceOp.SUM, name="x")
    assert result.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert arrays.allgather_array(np.array([1, 2]), name="g").tolist() == [1, 2]
    assert arrays.allgather_array(np.array(7), name="s").tolist() == [7]
    assert objects.broadcast_object({"a": 1}) == {"a": 1}
    assert objects.allgather_object("x") == ["x"]
    arrays.barrier()


def test_counters_count(alone):
    before = engine.counters()
    arrays.allreduce_arrays([np.ones(3, np.float32)], name="x")
    spent = engine.counters() - before
    assert spent.operations == 1
    assert spent.allreduce_operations == 1


def test_dtypes_that_the_engine_does_not_know(alone):
    with pytest.raises(InvalidArgumentError, match="complex64"):
        arrays.allreduce_arrays([np.ones(3, np.complex64)], name="x")
    with pytest.raises(InvalidArgumentError, match="one dtype"):
        arrays.allreduce_arrays([np.ones(3, np.float32), np.ones(3, np.int32)], name="x")


def _rank_in_child(queue) -> None:
    try:
        engine.rank()
        queue.put("no error")
    except TfringError as error:
        queue.put(str(error))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_is_told_why_it_has_no_engine(alone):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_rank_in_child, args=(queue,))
    child.start()
    assert "forked" in queue.get(timeout=30)
    child.join(30)


INTERRUPTED_INIT = """
import signal, sys
import tfring
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    tfring.init(tfring.Config.from_environment(
        rank=0, size=2, local_size=2, store=sys.argv[1], store_serve=True, start_timeout_s=3600
    ))
except KeyboardInterrupt:
    print("interrupted", tfring.is_initialized())
"""


def test_ctrl_c_ends_the_wait_for_other_ranks():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = free.getsockname()
    command = [sys.executable, "-c", INTERRUPTED_INIT, f"{address[0]}:{address[1]}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            # It serves the store, so it is in init; nobody else comes.
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and process.poll() is None:
                with socket.socket() as probe:
                    if probe.connect_ex(address) == 0:
                        break
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert output == "interrupted False\n"
    assert process.returncode == 0
