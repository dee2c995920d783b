"""What comes after `tfring.elastic.run` has returned, under tfringrun."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from elastic.fake_driver import SCRIPT
from harness.launched import PYTHON, Launched, wait_until

pytestmark = pytest.mark.timeout(180)

LIMIT_S = 90.0


def job_of(directory: Path, np: int, **env: str) -> Launched:
    return Launched(
        *("-np", str(np), "--min-np", "1", "--no-prefix", "--verbose", PYTHON, str(SCRIPT)),
        env={"FLAGS": str(directory), **env},
    )


def results(job: Launched) -> list[dict[str, Any]]:
    output, errors = job.process.communicate(timeout=LIMIT_S)
    assert job.process.returncode == 0, output + errors
    job.check_nothing_left()
    job.errors = errors
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def test_one_training_after_another(tmp_path: Path) -> None:
    with job_of(tmp_path, 3, STEPS="30", TRAININGS="2") as job:
        found = results(job)
    assert [r["result"] for r in found] == ["trained twice"] * 3
    assert all(r["rehearsals"] == [] for r in found)


def test_nobody_waits_for_those_who_are_done_nor_replaces_them(tmp_path: Path) -> None:
    with job_of(tmp_path, 3, STEPS="30", LINGER_S="3", TFRING_HEARTBEAT_TIMEOUT_S="1") as job:
        done = [tmp_path / f"done-w{number}" for number in range(3)]
        wait_until(lambda: all(path.exists() and path.read_text() for path in done), "all are done")
        os.kill(int(done[1].read_text()), signal.SIGKILL)
        found = results(job)
    # Silent for longer than the heartbeat's timeout, since they have left the training.
    assert len(found) == 2
    assert "generation 2" not in job.errors
    assert "w3 runs" not in job.errors
