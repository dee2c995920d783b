"""The hosts themselves: they reach each other, and nothing is left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from network.hosts import Hosts, why_no_switch, why_not

CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], 1), timeout=1)
except ConnectionRefusedError:
    print("reached")
except OSError:
    print("silence")
"""


@pytest.fixture(params=["bridge", "switch"])
def hosts(request: pytest.FixtureRequest) -> Iterator[Hosts]:
    switched = request.param == "switch"
    if reason := why_no_switch() if switched else why_not():
        pytest.skip(reason)
    with Hosts(3, switch=switched) as made:
        yield made


def reach(hosts: Hosts, one: int, other: int) -> str:
    command = hosts.command(one, [sys.executable, "-c", CONNECT, hosts.address(other)])
    return subprocess.run(
        command, capture_output=True, text=True, timeout=30, check=True
    ).stdout.strip()


def test_all_reach_all_until_one_is_cut(hosts: Hosts) -> None:
    assert reach(hosts, 0, 1) == reach(hosts, 2, 0) == "reached"
    hosts.cut(2)
    assert reach(hosts, 0, 2) == reach(hosts, 2, 1) == "silence"
    assert reach(hosts, 0, 1) == "reached"


LEAVE_NO_TIME = """
import os, sys
sys.path.insert(0, sys.argv[1])
from network.hosts import Hosts
hosts = Hosts(2, switch=sys.argv[2] == "switch")
print(*hosts.processes(), flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("kind", ["bridge", "switch"])
def test_nothing_is_left_after_a_kill(kind: str) -> None:
    if reason := why_no_switch() if kind == "switch" else why_not():
        pytest.skip(reason)
    tests = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", LEAVE_NO_TIME, tests, kind],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    left = {int(pid) for pid in done.stdout.split()}
    assert len(left) == 3
    deadline = time.monotonic() + 20
    while left and time.monotonic() < deadline:
        left = {pid for pid in left if running(pid)}
        time.sleep(0.05)
    assert not left


def running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except (ProcessLookupError, FileNotFoundError):
        return False
