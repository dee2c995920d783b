"""tfringrun as a user has it: a process of its own, with workers that tests can look for.

Every worker carries a token in its environment, and so does whatever it starts: `left()`
finds what a job has left behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import TracebackType

TFRINGRUN = str(Path(sys.executable).with_name("tfringrun"))
PYTHON = sys.executable
# Generous: the tests share the machine.
LIMIT_S = 60.0


def wait_until(condition: Callable[[], object], what: str, limit_s: float = LIMIT_S) -> None:
    """Waits for a condition that another process brings about."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {what}"
        time.sleep(0.05)


def tfringrun(
    *arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs tfringrun to its end."""
    return subprocess.run(
        [TFRINGRUN, *arguments],
        env={**os.environ, **(env or {})},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def _set_signals(ignored: Collection[int]) -> None:
    """Ignores these, and not what a shell's background (SIGINT) or nohup (SIGHUP) ignore."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)


class Launched:
    """A tfringrun that goes on while the test does something to it.

    with Launched("-np", "2", "bash", "-c", "touch $UP.$TFRING_RANK; sleep 1000", up=path) as job:
        job.wait_up(2)
        job.signal(signal.SIGTERM)
        assert job.wait() == 143
        job.check_nothing_left()

    Args:
        *arguments: Of tfringrun.
        up: Workers create `UP.anything` when they are ready; $UP is theirs to use.
        env: Variables for the launcher.
        program: What to start instead of tfringrun; its arguments follow.
        inside: What runs a command on another host: a network namespace.
        ignored: SIGINT, SIGHUP: signals that it inherits as ignored.
    """

    def __init__(
        self,
        *arguments: str,
        up: Path | None = None,
        env: dict[str, str] | None = None,
        program: str | None = None,
        inside: Sequence[str] = (),
        ignored: Collection[int] = (),
    ) -> None:
        self._token = f"token-{uuid.uuid4()}"
        self._up = up
        marks = {"TEST_TOKEN": self._token, "UP": str(up)}
        forwarded = [word for name in marks for word in ("-x", name)]
        self.process = subprocess.Popen(
            [program, *arguments] if program else [*inside, TFRINGRUN, *forwarded, *arguments],
            env={**os.environ, **marks, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: _set_signals(ignored),
        )

    def wait_up(self, count: int) -> None:
        """Waits until `count` workers have said that they are ready."""
        up = self._up
        assert up is not None

        def ready() -> bool:
            ended = self.process.poll()
            assert ended is None, (ended, self.process.communicate())
            return len(list(up.parent.glob(f"{up.name}.*"))) >= count

        wait_until(ready, f"{count} workers up")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """The exit status; `output` and `errors` have the rest."""
        self.output, self.errors = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode

    def left(self) -> list[str]:
        """Command lines of processes of the job that exist still."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if self._token.encode() in (entry / "environ").read_bytes():
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found.append(f"{entry.name} {command}")
            except OSError:
                continue  # it has just ended
        return found

    def check_nothing_left(self) -> None:
        wait_until(lambda: not self.left(), f"the end of {self.left()}", 20.0)

    def __enter__(self) -> Launched:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=LIMIT_S)
        for line in self.left():
            try:
                os.kill(int(line.split()[0]), signal.SIGKILL)
            except ProcessLookupError:
                pass


def bash(script: str) -> Sequence[str]:
    """A worker's command."""
    return ("bash", "-c", script)
