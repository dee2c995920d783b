"""Real processes for tests: N ranks that run functions of a test module.

The processes come from `tfringrun`, as a user's would, unless a test asks for bare ones
(a launcher ends all ranks when one dies, which hides what the survivors would have done).
Each rank connects back over a Unix socket, receives a function by file and name, and sends
its result or its traceback.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

WORKER = Path(__file__).with_name("rank_worker.py")
LAUNCHER = WORKER.parents[2] / "tfring" / "launcher" / "cli.py"
START_TIMEOUT_S = 60.0
CLOSE_TIMEOUT_S = 20.0
# After one rank has failed, how long the others may take to report what became of them.
GRACE_S = 15.0
TAIL_LINES = 40


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def launcher_command(np: int, extra: Sequence[str] = ()) -> list[str]:
    """`tfringrun` of this interpreter's environment."""
    return [str(Path(sys.executable).with_name("tfringrun")), "-np", str(np), *extra]


def bare_environments(np: int) -> list[dict[str, str]]:
    """What each of `np` ranks on one host needs when no launcher starts them."""
    shared = {
        "TFRING_SIZE": str(np),
        "TFRING_LOCAL_SIZE": str(np),
        "TFRING_CROSS_RANK": "0",
        "TFRING_CROSS_SIZE": "1",
        "TFRING_STORE": f"127.0.0.1:{free_port()}",
        "TFRING_SECRET": secrets.token_hex(16),
    }
    return [
        {
            **shared,
            "TFRING_RANK": str(rank),
            "TFRING_LOCAL_RANK": str(rank),
            **({"TFRING_STORE_SERVE": "1"} if rank == 0 else {}),
        }
        for rank in range(np)
    ]


class RanksFailed(AssertionError):
    """At least one rank failed, died or was too slow; the message tells of every rank."""


class RankPool:
    """N processes that wait for functions to run.

    Args:
        np: Number of ranks.
        bare: Start the processes without the launcher.
        launcher_args: More arguments for `tfringrun`.
        env: Environment variables on top of this process's.
    """

    def __init__(
        self,
        np: int,
        *,
        bare: bool = False,
        launcher_args: Sequence[str] = (),
        env: dict[str, str] | None = None,
    ) -> None:
        self.np = np
        self._dir = Path(tempfile.mkdtemp(prefix="tfring-test-"))
        self._connections: dict[int, Connection] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._logs: list[Path] = []
        try:
            self._start(bare, launcher_args, {**os.environ, **(env or {})})
        except BaseException:
            self.close(kill=True)
            raise

    def run(
        self,
        function: Callable[..., Any],
        *args: Any,
        timeout_s: float = 90.0,
        init: bool = True,
        may_die: Collection[int] = (),
    ) -> list[Any]:
        """Runs a module-level function on every rank and returns the results in rank order.

        Args:
            function: A function of a test module; each rank loads the module's file.
            *args: Its arguments; they are pickled.
            timeout_s: Seconds for all ranks together.
            init: Call `tfring.init()` before and `tfring.shutdown()` after.
            may_die: Ranks whose end is no failure; their result is None.

        Raises:
            RanksFailed: Some rank raised, died or did not answer in time. The pool is of
                no use afterwards.
        """
        path = str(Path(function.__code__.co_filename).resolve())
        states: dict[int, tuple[str, Any]] = {}
        for rank, connection in self._connections.items():
            try:
                connection.send((path, function.__name__, args, init))
            except (BrokenPipeError, ConnectionResetError):
                states[rank] = ("died", None)
        self._collect(states, time.monotonic() + timeout_s, may_die)
        bad = {
            rank: state
            for rank, state in states.items()
            if state[0] != "ok" and not (state[0] == "died" and rank in may_die)
        }
        if bad:
            message = self._describe(function.__name__, states, timeout_s)
            self.close(kill=True)
            raise RanksFailed(message)
        return [states[rank][1] for rank in range(self.np)]

    def close(self, *, kill: bool = False) -> None:
        """Ends every process; politely first, unless `kill`."""
        for connection in self._connections.values():
            try:
                if not kill:
                    connection.send(None)
            except (BrokenPipeError, ConnectionResetError):
                pass
            connection.close()
        self._connections.clear()
        # SIGTERM lets the launcher end its workers; each process has its own group.
        steps = ((signal.SIGTERM, CLOSE_TIMEOUT_S), (signal.SIGKILL, CLOSE_TIMEOUT_S))
        for process in self._processes:
            if kill:
                _signal(process, signal.SIGTERM)
            for number, seconds in steps:
                try:
                    process.wait(seconds)
                    break
                except subprocess.TimeoutExpired:
                    _signal(process, number)
        self._processes.clear()
        shutil.rmtree(self._dir, ignore_errors=True)

    def output(self) -> str:
        """What the ranks have printed so far."""
        return "\n".join(log.read_text(errors="replace") for log in self._logs if log.exists())

    def bare_ranks(self) -> list[tuple[list[str], dict[str, str]]]:
        """How each rank is started without the launcher: what runs its command, and variables."""
        return [([], variables) for variables in bare_environments(self.np)]

    def _start(self, bare: bool, launcher_args: Sequence[str], env: dict[str, str]) -> None:
        address = self._dir / "socket"
        worker = [sys.executable, "-u", str(WORKER), str(address)]
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(address))
            listener.listen(self.np)
            if bare or not LAUNCHER.exists():
                for rank, (prefix, variables) in enumerate(self.bare_ranks()):
                    self._spawn(f"rank{rank}", [*prefix, *worker], {**env, **variables})
            else:
                self._spawn("launcher", launcher_command(self.np, launcher_args) + worker, env)
            self._accept(listener)

    def _spawn(self, name: str, command: list[str], env: dict[str, str]) -> None:
        log = self._dir / f"{name}.log"
        self._logs.append(log)
        with log.open("wb") as output:
            self._processes.append(
                subprocess.Popen(
                    command,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )

    def _accept(self, listener: socket.socket) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        listener.settimeout(1.0)
        while len(self._connections) < self.np:
            try:
                connection = Connection(listener.accept()[0].detach())
                self._connections[connection.recv()] = connection
            except (TimeoutError, EOFError):
                ended = [p.returncode for p in self._processes if p.poll() is not None]
                if ended or time.monotonic() > deadline:
                    here = sorted(self._connections)
                    raise RanksFailed(
                        f"only ranks {here} of {self.np} started; exit statuses {ended}; "
                        f"output:\n{self._tail()}"
                    ) from None

    def _collect(
        self, states: dict[int, tuple[str, Any]], deadline: float, may_die: Collection[int]
    ) -> None:
        pending = {c: rank for rank, c in self._connections.items() if rank not in states}
        while pending and (left := deadline - time.monotonic()) > 0:
            for connection in wait(list(pending), timeout=left):
                assert isinstance(connection, Connection)
                rank = pending.pop(connection)
                try:
                    states[rank] = connection.recv()
                except (EOFError, ConnectionResetError):
                    states[rank] = ("died", None)
                if states[rank][0] != "ok" and rank not in may_die:
                    deadline = min(deadline, time.monotonic() + GRACE_S)
        for rank in pending.values():
            states[rank] = ("no answer", None)

    def _describe(self, name: str, states: dict[int, tuple[str, Any]], timeout_s: float) -> str:
        lines = [f"{name} on {self.np} ranks (limit {timeout_s:g} s):"]
        for rank, (status, value) in sorted(states.items()):
            lines.append(f"rank {rank}: {status}" + (f"\n{value}" if status == "error" else ""))
        return "\n".join([*lines, "output:", self._tail()])

    def _tail(self) -> str:
        texts = [log.read_text(errors="replace") for log in self._logs if log.exists()]
        return "\n".join("\n".join(text.splitlines()[-TAIL_LINES:]) for text in texts)


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass
