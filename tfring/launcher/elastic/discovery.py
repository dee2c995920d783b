"""The hosts of an elastic job: given once, or what a script prints now and then.

The script prints a host a line, `host` or `host:slots`. It runs once a second, never twice at a
time. When it fails, or prints what is no host, the hosts stay as they were.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence

from tfring.errors import LaunchError
from tfring.launcher.hosts import Host, parse_host_list

_INTERVAL_S = 1.0
_LIMIT_S = 30.0


def parse_hosts(text: str) -> list[Host]:
    """The hosts that a script has printed; none is right, too.

    Raises:
        LaunchError: A line is no host, or a host is named twice.
    """
    lines = [line.strip() for line in text.splitlines()]
    named = [line for line in lines if line and not line.startswith("#")]
    return parse_host_list(",".join(named)) if named else []


class Discovery:
    """Runs the script in the background.

    Args:
        script: A command line for the shell.
    """

    def __init__(self, script: str) -> None:
        self._script = script
        self._process: subprocess.Popen[bytes] | None = None
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as this object)
        self._began = 0.0
        self._next = 0.0

    def next_look(self) -> float:
        """When `poll` has something to do again, on the clock of `time.monotonic`."""
        # A script takes some milliseconds, of which nobody is told the end.
        return time.monotonic() + 0.05 if self._process else self._next

    def poll(self) -> list[Host] | None:
        """The hosts, when the script has just ended; None otherwise.

        Raises:
            LaunchError: It has failed.
        """
        now = time.monotonic()
        if self._process is None:
            if now >= self._next:
                self._start(now)
            return None
        status = self._process.poll()
        if status is None:
            if now < self._began + _LIMIT_S:
                return None
            self._end()
            raise LaunchError(f"{self._script}: not done within {_LIMIT_S:g} s")
        self._process = None
        self._next = now + _INTERVAL_S
        self._output.seek(0)
        text = self._output.read().decode("utf-8", "replace")
        if status != 0:
            raise LaunchError(f"{self._script}: exited with status {status}")
        return parse_hosts(text)

    def wait(self) -> list[Host]:
        """Runs the script to its end.

        Raises:
            LaunchError: It has failed.
        """
        while True:
            hosts = self.poll()
            if hosts is not None:
                return hosts
            time.sleep(0.01)

    def close(self) -> None:
        """Ends what still runs."""
        if self._process is not None:
            self._end()
        self._output.close()

    def _start(self, now: float) -> None:
        self._output.seek(0)
        self._output.truncate()
        self._began = now
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", self._script],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            start_new_session=True,
        )

    def _end(self) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None
        self._next = time.monotonic() + _INTERVAL_S


class FixedHosts:
    """Hosts that stay what they are, in the place of `Discovery`."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self._hosts = list(hosts)

    def next_look(self) -> float:
        """Never."""
        return float("inf")

    def poll(self) -> list[Host] | None:
        """Nothing new."""
        return None

    def wait(self) -> list[Host]:
        """The hosts."""
        return self._hosts

    def close(self) -> None:
        """Nothing to end."""
