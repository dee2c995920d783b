"""One worker process, with everything that it starts.

A worker leads a session and a process group of its own, so that one signal reaches its
children too. It is reaped last: until then its number cannot pass to another process, and
signals to its group cannot go astray.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from tfring.launcher.messages import Kind

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class WorkerSpec:
    """What to start: a rank's command, the variables on top of the host's, the directory."""

    rank: int
    command: list[str]
    variables: dict[str, str]
    directory: str

    def to_json(self) -> dict[str, Any]:
        """For a START message."""
        return asdict(self)


class Worker:
    """A running worker.

    Besides its output there is a pipe for words to the driver of an elastic job. A line of at
    most PIPE_BUF bytes arrives whole, and before the news of the worker's end. The end of
    another pipe is the first sign of that (tfring/elastic/lifeline.py).

    Args:
        spec: What to run.
        environment: All variables of the process.

    Raises:
        OSError: The command cannot be run.
    """

    def __init__(self, spec: WorkerSpec, environment: dict[str, str]) -> None:
        self.rank = spec.rank
        agent = os.getpid()

        def die_with_agent() -> None:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != agent:  # it died before prctl
                os.kill(os.getpid(), signal.SIGKILL)

        self._words, words = os.pipe()
        self._life, life = os.pipe()
        variables = {**environment, "TFRING_WORDS": str(words), "TFRING_LIFELINE": str(life)}
        try:
            self._process = self._started(spec, variables, (words, life), die_with_agent)
        except BaseException:
            os.close(self._words)
            os.close(self._life)
            raise
        finally:
            os.close(words)
            os.close(life)
        self.pid = self._process.pid

    @staticmethod
    def _started(
        spec: WorkerSpec,
        environment: dict[str, str],
        inherited: tuple[int, ...],
        prepare: Callable[[], None],
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            spec.command,
            env=environment,
            cwd=spec.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=inherited,
            # Safe: the agent has one thread.
            preexec_fn=prepare,
        )

    @property
    def outputs(self) -> dict[int, Kind]:
        """Descriptors of its pipes, and what comes from them; with DYING nothing but the end."""
        assert self._process.stdout is not None and self._process.stderr is not None
        return {
            self._process.stdout.fileno(): Kind.STDOUT,
            self._process.stderr.fileno(): Kind.STDERR,
            self._words: Kind.WORD,
            self._life: Kind.DYING,
        }

    def poll(self) -> int | None:
        """The exit status, negative for a signal, or None; does not reap."""
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        ended = os.waitid(os.P_PID, self.pid, options)
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def signal(self, number: int) -> None:
        """Sends a signal to the worker and to all in its group."""
        signal_group(self.pid, number)

    def reap(self) -> None:
        """Ends what is left of the group and takes the exit status; poll() was not None."""
        self.signal(signal.SIGKILL)
        self._process.wait(timeout=10)
        os.close(self._words)
        os.close(self._life)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


def how_it_ended(status: int) -> str:
    """For people; `status` as of `Worker.poll`."""
    if status >= 0:
        return f"exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = "unknown"
    return f"was ended by signal {-status} ({name})"


def signal_group(pid: int, number: int) -> None:
    """Sends a signal to a process group, if it is there still."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def adopt_orphans() -> None:
    """Makes this process the parent of descendants whose own parent ends."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_orphans() -> None:
    """Kills all children of this process, until none is left: daemons of workers."""
    path = f"/proc/{os.getpid()}/task/{os.getpid()}/children"
    while True:
        try:
            with open(path, encoding="ascii") as file:
                children = [int(pid) for pid in file.read().split()]
        except OSError:
            return
        if not children:
            return
        for pid in children:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass
