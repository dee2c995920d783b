"""The ssh command that starts a host's agent. Nothing secret is on it."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from dataclasses import dataclass

from tfring.errors import LaunchError

_LOOKUP_TIMEOUT_S = 10


@dataclass(frozen=True)
class Ssh:
    """How to reach remote hosts.

    Attributes:
        port: Port of their sshd; None: as ssh's own configuration has it.
        identity_file: Private key; None: as ssh's own configuration has it.
        python: Python interpreter on the remote hosts, with tfring installed.
        connect_timeout_s: Seconds until a host counts as unreachable.
    """

    python: str
    port: int | None = None
    identity_file: str | None = None
    connect_timeout_s: int = 30

    def check(self) -> None:
        """Raises LaunchError when there is no ssh here."""
        if shutil.which("ssh") is None:
            raise LaunchError(
                "there is no ssh on PATH; remote hosts need OpenSSH's client on this machine "
                "and its server on theirs"
            )

    def command(self, host: str) -> list[str]:
        """The command that runs the agent on `host`."""
        # From / no module of the user's home can take the place of a standard one.
        remote = f"cd / && exec {shlex.quote(self.python)} -m tfring.launcher.remote"
        options = {
            "BatchMode": "yes",  # no password prompt: it would wait for ever
            "ConnectTimeout": str(self.connect_timeout_s),
            # Notice within a minute that the host has vanished.
            "ServerAliveInterval": "15",
            "ServerAliveCountMax": "4",
        }
        words = ["ssh", "-T", *(f"-o{name}={value}" for name, value in options.items())]
        return [*words, *self._destination_options(), "--", host, remote]

    def address_of(self, host: str) -> str:
        """The host's name on the network: ssh's configuration may have an alias for it."""
        command = ["ssh", "-G", *self._destination_options(), "--", host]
        try:
            result = subprocess.run(
                command, capture_output=True, text=True, timeout=_LOOKUP_TIMEOUT_S, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return host.rpartition("@")[2]
        for line in result.stdout.splitlines():
            if line.startswith("hostname "):
                return line.split()[1]
        return host.rpartition("@")[2]

    def _destination_options(self) -> list[str]:
        words = []
        if self.port is not None:
            words += ["-p", str(self.port)]
        if self.identity_file is not None:
            words += ["-i", self.identity_file, "-oIdentitiesOnly=yes"]
        return words
