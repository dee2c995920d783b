"""examples/elastic_training.py, as a user runs it who then kills a worker."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from harness.launched import PYTHON, Launched

pytestmark = pytest.mark.timeout(180)

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "elastic_training.py"


def read_until(job: Launched, pattern: str) -> re.Match[str]:
    """Reads lines of output until one matches."""
    assert job.process.stdout is not None
    for line in job.process.stdout:
        if found := re.search(pattern, line):
            return found
    raise AssertionError(f"ended before {pattern!r}:\n{job.process.communicate()}")


def test_the_example_survives_a_kill(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    with Launched("-np", "3", "--min-np", "1", PYTHON, str(EXAMPLE), "--epochs", "20") as job:
        victim = int(read_until(job, r"Process (\d+) is rank 0 of 3")[1])
        read_until(job, r"Epoch 3/20")
        os.kill(victim, signal.SIGKILL)
        read_until(job, r"Process \d+ is rank 0 of 2")
        found = read_until(job, r"Validation accuracy: ([\d.]+)% after (\d+) changes")
        assert float(found[1]) >= 97
        assert int(found[2]) >= 1
        assert job.wait() == 0
        assert "was ended by signal 9 (SIGKILL)" in job.errors
        job.check_nothing_left()
