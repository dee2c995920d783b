"""A process of a group: joins its engine, then does what the conductor says.

Between commands it sits in a blocking read, so a group that is not being measured takes no
time from one that is.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from benchmarks.barrier import Barrier
from benchmarks.engines.engine import Engine, Run
from benchmarks.workloads import Workload


def make_engine(kind: str, options: argparse.Namespace) -> Engine:
    """The engine of that name; it imports what it needs only here."""
    if kind == "memcpy":
        from benchmarks.engines.memcpy import Memcpy

        return Memcpy(options.rank, options.size)
    if kind == "tfring":
        from benchmarks.engines.tfring_raw import TfringRaw

        return TfringRaw()
    if kind == "open_mpi":
        from benchmarks.engines.open_mpi import OpenMpi

        return OpenMpi()
    if kind == "gloo":
        from benchmarks.engines.gloo import Gloo

        return Gloo(options.rank, options.size, Path(options.meeting_place))
    raise ValueError(f"engine: unknown: {kind}")


class Worker:
    """Carries out commands.

    Args:
        engine: Has joined.
        barrier: Of all ranks of this engine.
    """

    def __init__(self, engine: Engine, barrier: Barrier) -> None:
        self._engine = engine
        self._barrier = barrier
        self._run: Run | None = None

    def prepare(self, work: dict[str, Any]) -> None:
        """Makes the tensors and checks one result."""
        self._run = None
        self._run = self._engine.prepare(Workload.from_json(work), self._engine.rank + 1)
        self._engine.check(self._run)

    def measure(self, calls: int, repeats: int) -> list[tuple[float, float]]:
        """Times batches of `calls` calls.

        Returns:
            When this rank reached the barrier before a batch and when it had finished, in
            seconds on a clock that is the same for all processes.
        """
        run = self._run
        assert run is not None, "prepare comes first"
        times = []
        for _ in range(repeats):
            arrived = self._barrier.wait()
            for _ in range(calls):
                run()
            times.append((arrived, time.perf_counter()))
        return times

    def cpu_time(self) -> float:
        """Seconds of processor time of this process so far, all threads."""
        return time.process_time()


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
