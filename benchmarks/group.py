"""A group: the processes of one engine, started once and used in turns with other groups."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from benchmarks.barrier import Barrier
from benchmarks.launch import Launch
from benchmarks.workloads import Workload

START_LIMIT_S = 120.0
COMMAND_LIMIT_S = 300.0


class GroupError(RuntimeError):
    """A group did not start, ended early or reported an error; the message has its output.

    Args:
        name: The group's.
        what: What happened.
    """

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"{name}: {what}")
        self.name = name


class Group:
    """Starts the processes and waits until all have joined.

    Args:
        launch: How to start which engine.
        size: Number of processes.
        directory: For sockets and logs; must exist.

    Raises:
        GroupError: They did not all come.
    """

    def __init__(self, launch: Launch, size: int, directory: Path) -> None:
        self.name = launch.name
        self.size = size
        self._log = directory / f"{launch.name}.log"
        control, barrier = directory / f"{launch.name}.sock", directory / f"{launch.name}.barrier"
        Barrier.create(barrier, size)
        arguments = ["--control", str(control), "--barrier", str(barrier)]
        self._processes: list[subprocess.Popen[bytes]] = []
        self._connections: list[socket.socket] = []
        self._readers: list[Any] = []
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(control))
            listener.listen(size)
            listener.settimeout(0.2)
            with self._log.open("wb") as log:
                for command, environment in launch.commands(size, arguments, directory):
                    self._processes.append(
                        subprocess.Popen(
                            command,
                            env={**os.environ, **environment},
                            stdin=subprocess.DEVNULL,
                            stdout=log,
                            stderr=subprocess.STDOUT,
                            start_new_session=True,
                        )
                    )
            try:
                self._accept(listener)
            except BaseException:
                self.stop()
                raise

    def _accept(self, listener: socket.socket) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        by_rank: dict[int, tuple[socket.socket, Any]] = {}
        while len(by_rank) < self.size:
            if any(process.poll() not in (None, 0) for process in self._processes):
                raise GroupError(self.name, f"ended at its start:\n{self._output()}")
            if time.monotonic() > deadline:
                came = sorted(by_rank)
                raise GroupError(
                    self.name,
                    f"expected {self.size} processes within {START_LIMIT_S:g} s, "
                    f"ranks {came} came:\n{self._output()}",
                )
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            connection.settimeout(START_LIMIT_S)
            reader = connection.makefile("r", encoding="utf-8")
            hello = json.loads(reader.readline())
            by_rank[hello["rank"]] = (connection, reader)
        for rank in range(self.size):
            connection, reader = by_rank[rank]
            connection.settimeout(COMMAND_LIMIT_S)
            self._connections.append(connection)
            self._readers.append(reader)

    def _output(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]

    def command(self, do: str, **arguments: Any) -> list[Any]:
        """Has every rank do something; returns what each said, in rank order.

        Raises:
            GroupError: A rank failed, died or took longer than COMMAND_LIMIT_S.
        """
        message = (json.dumps({"do": do, **arguments}) + "\n").encode()
        answers: list[Any] = []
        try:
            for connection in self._connections:
                connection.sendall(message)
            for rank, reader in enumerate(self._readers):
                line = reader.readline()
                if not line:
                    raise GroupError(self.name, f"rank {rank} died in {do}:\n{self._output()}")
                answer = json.loads(line)
                if "error" in answer:
                    raise GroupError(self.name, f"rank {rank} in {do}:\n{answer['error']}")
                answers.append(answer["ok"])
        except OSError as error:
            raise GroupError(self.name, f"{do}: {error}:\n{self._output()}") from error
        return answers

    def prepare(self, key: str, work: Workload) -> None:
        """Makes the tensors, to be measured as `key`; the ranks check a first result."""
        self.command("prepare", key=key, work=work.to_json())

    def measure(self, key: str, calls: int, repeats: int) -> list[float]:
        """Seconds a call, of `repeats` batches of `calls` calls.

        A batch lasts from the moment the last rank reaches the barrier before it to the moment
        the last rank has finished.
        """
        ranks = self.command("measure", key=key, calls=calls, repeats=repeats)
        return [
            (max(end for _, end in batch) - max(arrived for arrived, _ in batch)) / calls
            for batch in zip(*ranks, strict=True)
        ]

    def stop(self) -> None:
        """Hangs up, and ends what does not leave by itself."""
        for connection in self._connections:
            connection.close()
        for reader in self._readers:
            reader.close()
        deadline = time.monotonic() + 20.0
        for process in self._processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()) if self._connections else 0.1)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(20.0)
