"""A pipe that ends when its process begins to die."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

from tfring.elastic import lifeline

PROGRAM = """
import os, subprocess, sys
from tfring.elastic import lifeline
pipe = int(sys.argv[1])
assert lifeline.hold(pipe) and lifeline.hold(pipe)
assert not os.path.exists(f"/proc/self/fd/{pipe}")
# Everything else is open as before, and children don't hold the pipe.
child = subprocess.Popen(["sleep", "1000"])
print(child.pid, flush=True)
sys.stdin.read()
"""


def supported() -> bool:
    """Whether the kernel has what it takes."""
    read, write = os.pipe()
    held = lifeline.hold(write)
    os.close(read)
    return held


@pytest.mark.skipif(not supported(), reason="needs close_range, of Linux 5.9")
@pytest.mark.parametrize("killed", [True, False])
def test_it_ends_with_the_process(killed: bool) -> None:
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(write)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=(write,),
    )
    os.close(write)
    assert process.stdin is not None and process.stdout is not None
    child = int(process.stdout.readline())
    try:
        assert select.select([read], [], [], 0.2)[0] == []
        if killed:
            process.kill()
        else:
            process.stdin.close()
        assert select.select([read], [], [], 20)[0] == [read]
        assert os.read(read, 1) == b""
        assert process.wait(20) == (-signal.SIGKILL if killed else 0)
    finally:
        os.kill(child, signal.SIGKILL)
        os.close(read)
        process.stdin.close()
        process.stdout.close()


def test_where_the_kernel_can_not_it_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifeline, "_keep_only", lambda libc, descriptor: False)
    monkeypatch.setattr(lifeline, "_held", set())  # numbers are used again
    read, write = os.pipe()
    assert not lifeline.hold(write)
    os.write(write, b"open")
    assert os.read(read, 4) == b"open"
    os.close(read)
    os.close(write)
