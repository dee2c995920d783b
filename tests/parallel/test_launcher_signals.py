"""However tfringrun ends, its workers and what they started end too."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from harness.launched import PYTHON, Launched, bash

SLEEP = "touch $UP.$TFRING_RANK; sleep 1000 & sleep 1001"


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (signal.SIGINT, 130),
        (signal.SIGTERM, 143),
        (signal.SIGHUP, 129),
        (signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_signals(tmp_path: Path, number: int, status: int) -> None:
    with Launched("-np", "2", *bash(SLEEP), up=tmp_path / "up") as job:
        job.wait_up(2)
        job.signal(number)
        assert job.wait() == status
        job.check_nothing_left()


def test_a_second_signal_is_for_those_in_a_hurry(tmp_path: Path) -> None:
    script = "trap '' TERM; touch $UP.$TFRING_RANK; while true; do sleep 0.2; done"
    with Launched("-np", "2", "--grace", "1000", *bash(script), up=tmp_path / "up") as job:
        job.wait_up(2)
        job.signal(signal.SIGINT)
        job.signal(signal.SIGTERM)
        assert job.wait() in (130, 143)  # two pending signals come in any order
        job.check_nothing_left()


def test_under_nohup_a_hangup_is_ignored(tmp_path: Path) -> None:
    script = "touch $UP.$TFRING_RANK; while [ ! -e $UP-go ]; do sleep 0.1; done; echo done"
    up = tmp_path / "up"
    with Launched("-np", "1", *bash(script), up=up, ignored=[signal.SIGHUP]) as job:
        job.wait_up(1)
        job.signal(signal.SIGHUP)
        Path(f"{up}-go").touch()
        assert job.wait() == 0
        assert job.output == "[0] done\n"


def test_the_agent_is_killed(tmp_path: Path) -> None:
    with Launched("-np", "2", *bash(SLEEP), up=tmp_path / "up") as job:
        job.wait_up(2)
        launcher = job.process.pid
        children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
        assert len(children) == 1
        os.kill(int(children[0]), signal.SIGKILL)
        assert job.wait() == 1
        assert "lost localhost, where these ranks ran: 0, 1" in job.errors
        job.check_nothing_left()


def test_standard_input_closes(tmp_path: Path) -> None:
    arguments = ["-np", "2", "--end-with-stdin", *bash(SLEEP)]
    with Launched(*arguments, up=tmp_path / "up") as job:
        job.wait_up(2)
        assert job.wait() == 1  # communicate() closes it
        assert "standard input has closed" in job.errors
        job.check_nothing_left()


def test_ranks_that_have_met_leave_nothing(tmp_path: Path) -> None:
    """Neither processes nor shared memory, when killed in the middle of collectives."""
    script = (
        "import pathlib, numpy, tfring\n"
        "from tfring import config\n"
        "from tfring.arrays import allgather_array\n"
        "tfring.init()\n"
        "for step in range(10**9):\n"
        "    allgather_array(numpy.ones(1000), name='x')\n"
        "    if step == 10:\n"
        "        pathlib.Path(config.environment()['UP'] + f'.{tfring.rank()}').touch()\n"
    )
    before = set(os.listdir("/dev/shm"))
    with Launched("-np", "2", PYTHON, "-c", script, up=tmp_path / "up") as job:
        job.wait_up(2)
        job.signal(signal.SIGKILL)
        job.wait()
        job.check_nothing_left()
    assert not [name for name in set(os.listdir("/dev/shm")) - before if "tfr" in name]
