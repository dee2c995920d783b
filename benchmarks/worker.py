"""A process of a group: joins its engine, then does what the conductor says.

Between commands it sits in a blocking read, so a group that is not being measured takes no
time from one that is.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import inspect
import json
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from benchmarks.barrier import Barrier
from benchmarks.engines.engine import Engine, Run
from benchmarks.engines.training import Training
from benchmarks.workloads import Workload


def make_engine(kind: str, options: argparse.Namespace) -> Engine:
    """The engine of that name, from "module:class"; it imports what it needs only here."""
    module, _, name = kind.partition(":")
    made = getattr(importlib.import_module(f"benchmarks.engines.{module}"), name)
    arguments = [options.rank, options.size, options.meeting_place]
    engine = made(*arguments[: len(inspect.signature(made).parameters)])
    assert isinstance(engine, Engine)
    return engine


class Worker:
    """Carries out commands.

    Args:
        engine: Has joined.
        barrier: Of all ranks of this engine.
    """

    def __init__(self, engine: Engine, barrier: Barrier) -> None:
        self._engine = engine
        self._barrier = barrier
        self._runs: dict[str, Run] = {}

    def prepare(self, key: str, work: dict[str, Any]) -> None:
        """Makes the tensors and checks one result."""
        run = self._engine.prepare(Workload.from_json(work), self._engine.rank + 1)
        self._engine.check(run)
        self._runs[key] = run

    def forget(self) -> None:
        """Gives the tensors' memory back."""
        self._runs.clear()
        gc.collect()

    def measure(self, key: str, calls: int, repeats: int) -> list[tuple[float, float]]:
        """Times batches of `calls` calls.

        Returns:
            When this rank reached the barrier before a batch and when it had finished, in
            seconds on a clock that is the same for all processes.
        """
        run = self._runs[key]
        times = []
        for _ in range(repeats):
            arrived = self._barrier.wait()
            for _ in range(calls):
                run()
            times.append((arrived, time.perf_counter()))
        return times

    def wait_for_last(self, key: str, late_s: float) -> tuple[float, float]:
        """One call, to which the last rank comes late.

        Returns:
            Seconds that the call took here, and seconds of processor time in it.
        """
        self._barrier.wait()
        if self._engine.rank == self._engine.size - 1:
            time.sleep(late_s)
        began, used = time.perf_counter(), time.process_time()
        self._runs[key]()
        return time.perf_counter() - began, time.process_time() - used

    def cpu_time(self) -> float:
        """Seconds of processor time of this process so far, all threads."""
        return time.process_time()

    def build(self, model: str) -> int:
        """Makes a model to train; returns the number of its parameters."""
        return self._trainer().build(model)

    def train(self, steps: int) -> tuple[float, int]:
        """Seconds a step, and the number of allreduces so far."""
        self._barrier.wait()
        return self._trainer().steps(steps)

    def _trainer(self) -> Training:
        assert isinstance(self._engine, Training)
        return self._engine


def obey(worker: Worker, connection: socket.socket) -> None:
    """Reads commands until the conductor hangs up."""
    lines = connection.makefile("r", encoding="utf-8")
    for line in lines:
        command = json.loads(line)
        try:
            reply = {"ok": getattr(worker, command.pop("do"))(**command)}
        except Exception:
            reply = {"error": traceback.format_exc()}
        connection.sendall((json.dumps(reply) + "\n").encode())


def main() -> int:
    parser = argparse.ArgumentParser(description="A process of a measured group.")
    parser.add_argument("--engine", required=True)
    parser.add_argument("--control", required=True, help="Unix socket of the conductor")
    parser.add_argument("--barrier", required=True, help="file")
    parser.add_argument("--meeting-place", help="file, for engines that need one")
    parser.add_argument("--rank", type=int, help="for engines whose launcher does not say")
    parser.add_argument("--size", type=int)
    options = parser.parse_args()
    engine = make_engine(options.engine, options)
    engine.join()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(options.control)
        hello = {"rank": engine.rank, "size": engine.size}
        connection.sendall((json.dumps(hello) + "\n").encode())
        barrier = Barrier(Path(options.barrier), engine.rank, engine.size)
        obey(Worker(engine, barrier), connection)
    engine.leave()
    return 0


if __name__ == "__main__":
    sys.exit(main())
