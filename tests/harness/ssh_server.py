"""A real sshd, with keys and configuration of its own in a directory."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.launched import wait_until

_CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 1)"
_SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:" + os.defpath)


class SshServer:
    """sshd in the foreground; `options` and `env` let tfringrun reach it.

    Args:
        directory: For its files; nobody else may write there.
        names: What clients call this host; the first is the address that it listens on.
        inside: What runs a command on another host: a network namespace.
    """

    def __init__(
        self,
        directory: Path,
        names: Sequence[str] = ("127.0.0.1", "localhost"),
        inside: Sequence[str] = (),
    ) -> None:
        if _SSHD is None or shutil.which("ssh") is None:
            pytest.skip("needs sshd and ssh (Debian: apt-get install openssh-server)")
        self._directory = directory
        self.key = self._key("user_key")
        host_key = self._key("host_key")
        shutil.copy(f"{self.key}.pub", directory / "authorized_keys")
        (directory / "home").mkdir()
        self._address, self._inside = names[0], list(inside)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        config = directory / "sshd_config"
        config.write_text(
            f"ListenAddress {self._address}:{self.port}\n"
            f"HostKey {host_key}\n"
            f"AuthorizedKeysFile {directory / 'authorized_keys'}\n"
            f"PidFile {directory / 'pid'}\n"
            "StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
            # The shell must not read the startup files of whoever runs the tests.
            f"SetEnv HOME={directory / 'home'}\n"
        )
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # sshd insists, for its privileges
        self._log = directory / "log"
        self.process = subprocess.Popen(
            [*self._inside, _SSHD, "-D", "-e", "-f", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._log.open("wb"),
        )
        wait_until(self._listens, "sshd listening")
        self._make_client(names)

    @property
    def options(self) -> list[str]:
        """Arguments for tfringrun."""
        return ["--ssh-port", str(self.port), "--ssh-identity-file", str(self.key)]

    @property
    def env(self) -> dict[str, str]:
        """Variables for tfringrun: `ssh` knows the host's key."""
        return {"PATH": f"{self._directory / 'bin'}:{os.environ['PATH']}"}

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(20)

    def _key(self, name: str) -> Path:
        path = self._directory / name
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
        subprocess.run(command, check=True, timeout=20)
        return path

    def _listens(self) -> bool:
        assert self.process.poll() is None, self._log.read_text()
        command = [*self._inside, sys.executable, "-c", _CONNECT, self._address, str(self.port)]
        return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0

    def _make_client(self, names: Sequence[str]) -> None:
        """OpenSSH takes its home from the system's user table, so a wrapper names the files."""
        known = self._directory / "known_hosts"
        host_key = " ".join((self._directory / "host_key.pub").read_text().split()[:2])
        known.write_text("".join(f"[{name}]:{self.port} {host_key}\n" for name in names))
        config = self._directory / "ssh_config"
        config.write_text(f"UserKnownHostsFile {known}\nGlobalKnownHostsFile /dev/null\n")
        (self._directory / "bin").mkdir()
        wrapper = self._directory / "bin" / "ssh"
        wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {config} "$@"\n')
        wrapper.chmod(0o755)
