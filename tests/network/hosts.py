"""Hosts on one machine: network namespaces, joined by a bridge or by a switch in user space.

Each namespace is held by a process of its own that waits for the end of its standard input.
So namespaces and their devices are gone when the process that made them is, however it ended.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

SWITCH_SOURCE = Path(__file__).with_name("switch.c")
# Packets of this size keep the switch below half a core at 1 Gbit/s.
SWITCH_MTU = 9000
TIMEOUT_S = 20.0


@functools.cache
def why_not() -> str:
    """Why hosts can't be made here; "" if they can."""
    if os.geteuid() != 0:
        return "needs root, to make network namespaces"
    for tool in ("ip", "tc", "nsenter", "unshare"):
        if shutil.which(tool) is None:
            return f"needs the program {tool}"
    try:
        with Hosts(2, rate_mbit=1000):
            return ""
    except (OSError, subprocess.SubprocessError) as error:
        return f"network namespaces can't be made here: {error}"


@functools.cache
def why_no_switch() -> str:
    """Why hosts can't be joined by the switch here; "" if they can."""
    if why_not():
        return why_not()
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "needs /dev/net/tun"
    if shutil.which("gcc") is None:
        return "needs gcc, to build the switch"
    try:
        with Hosts(2, delay_us=1):
            return ""
    except (OSError, subprocess.SubprocessError, RuntimeError) as error:
        return f"the switch does not run here: {error}"


class Hosts:
    """A number of hosts that reach each other; a context manager.

    Args:
        count: Number of hosts.
        rate_mbit: Rate of each host's link, each way, in Mbit/s; 0: without limit. A sequence
            has one for each host.
        delay_us: One-way delay between two hosts, in microseconds.
        loss_per_mille: So many of 1,000 packets are lost.
        switch: Join them by the switch in user space. It does delays and losses; it is the
            default where there are some.
    """

    device = "eth0"

    def __init__(
        self,
        count: int,
        *,
        rate_mbit: float | Sequence[float] = 0,
        delay_us: float = 0,
        loss_per_mille: int = 0,
        switch: bool | None = None,
    ) -> None:
        self.count = count
        rates = [rate_mbit] * count if isinstance(rate_mbit, int | float) else list(rate_mbit)
        self._holders: list[subprocess.Popen[bytes]] = []
        self._switch: subprocess.Popen[bytes] | None = None
        self._bridge: subprocess.Popen[bytes] | None = None
        try:
            for _ in range(count):
                self._holders.append(_hold_namespace())
            if switch or delay_us or loss_per_mille:
                self._join_by_switch(rates, delay_us, loss_per_mille)
            else:
                self._join_by_bridge(rates)
            for holder in self._holders:
                _ip(holder, "link", "set", "lo", "up")
        except BaseException:
            self.close()
            raise

    def address(self, host: int) -> str:
        return f"10.77.0.{host + 1}"

    def command(self, host: int, command: Sequence[str]) -> list[str]:
        """What runs `command` on a host."""
        return [*_enter(self._holders[host]), *command]

    def processes(self) -> list[int]:
        """Those that hold the namespaces and carry the packets."""
        return [p.pid for p in (self._switch, self._bridge, *self._holders) if p is not None]

    def cut(self, host: int) -> None:
        """From now on nothing comes or goes: no reset, no error."""
        if self._switch is not None:
            self._tell_switch(f"cut {host}")
        else:
            assert self._bridge is not None
            _ip(self._bridge, "link", "set", f"p{host}", "down")

    def close(self) -> None:
        for process in (self._switch, self._bridge, *self._holders):
            if process is None:
                continue
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self._switch = self._bridge = None
        self._holders = []

    def __enter__(self) -> Hosts:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _join_by_bridge(self, rates: Sequence[float]) -> None:
        self._bridge = bridge = _hold_namespace()
        _ip(bridge, "link", "add", "br0", "type", "bridge")
        _ip(bridge, "link", "set", "br0", "up")
        for host, holder in enumerate(self._holders):
            pair = ["eth0", "type", "veth", "peer", "name", f"p{host}", "netns", str(bridge.pid)]
            _ip(holder, "link", "add", *pair)
            _ip(bridge, "link", "set", f"p{host}", "master", "br0", "up")
            _ip(holder, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
            _ip(holder, "link", "set", "eth0", "up")
            if rates[host]:
                _limit(holder, "eth0", rates[host])  # what the host sends
                _limit(bridge, f"p{host}", rates[host])  # what it receives

    def _join_by_switch(self, rates: Sequence[float], delay_us: float, loss: int) -> None:
        links = [
            f"{rate:g}:/proc/{holder.pid}/ns/net"
            for rate, holder in zip(rates, self._holders, strict=True)
        ]
        self._switch = subprocess.Popen(
            [_switch_program(), f"{delay_us:g}", str(loss), str(SWITCH_MTU), *links],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._expect_from_switch("ready")

    def _tell_switch(self, line: str) -> None:
        assert self._switch is not None and self._switch.stdin is not None
        self._switch.stdin.write(f"{line}\n".encode())
        self._switch.stdin.flush()
        self._expect_from_switch("done")

    def _expect_from_switch(self, word: str) -> None:
        assert self._switch is not None and self._switch.stdout is not None
        answer = self._switch.stdout.readline().decode().strip()
        if answer != word:
            raise RuntimeError(f"the switch: expected {word!r}, received {answer!r}")


def _hold_namespace() -> subprocess.Popen[bytes]:
    # The echo comes when the namespace is there. Its own session, for a Ctrl-C to end the
    # tests' processes first.
    holder = subprocess.Popen(
        ["unshare", "--net", "cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert holder.stdin is not None and holder.stdout is not None and holder.stderr is not None
    try:
        holder.stdin.write(b"\n")
        holder.stdin.flush()
        if holder.stdout.read(1) == b"\n":
            return holder
    except BrokenPipeError:
        pass
    finally:
        message = holder.stderr.read().decode().strip() if holder.poll() is not None else ""
        holder.stderr.close()
    holder.wait(TIMEOUT_S)
    raise OSError(message or "unshare --net failed")


def _enter(holder: subprocess.Popen[bytes]) -> list[str]:
    return ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]


def _run(command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, env=env, check=False
    )
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")


def _ip(holder: subprocess.Popen[bytes], *arguments: str) -> None:
    _run([*_enter(holder), "ip", *arguments])


def _limit(holder: subprocess.Popen[bytes], device: str, rate_mbit: float) -> None:
    tbf = ["tbf", "rate", f"{rate_mbit:g}mbit", "burst", "256kb", "latency", "20ms"]
    _run([*_enter(holder), "tc", "qdisc", "add", "dev", device, "root", *tbf])


@functools.cache
def _switch_program() -> str:
    folder = Path(tempfile.gettempdir(), f"tfring-switch-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    program = folder / f"switch-{SWITCH_SOURCE.stat().st_mtime_ns}"
    if not program.exists():
        made = program.with_suffix(f".{os.getpid()}")
        _run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", str(SWITCH_SOURCE), "-o", str(made)])
        made.rename(program)
    return str(program)
