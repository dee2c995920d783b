"""Replacements of lost workers: how often, how soon, and how many times."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastic.elastic_job import digits_job

pytestmark = pytest.mark.timeout(180)


def test_a_host_that_keeps_failing_is_set_aside_and_comes_back(tmp_path: Path) -> None:
    epochs = 40
    fatal = tmp_path / "replacements die"
    fatal.touch()
    with digits_job(
        *(tmp_path / "events", "--cooldown", "1"), np=2, epochs=epochs, DIE_AT_ONCE=str(fatal)
    ) as job:
        job.wait_step(5)
        job.kill(1)
        job.wait_size(1)
        job.wait_for(lambda _: len(fatal.read_text().split()) >= 3, "the third death")
        fatal.unlink()
        job.wait_size(2)
        job.finish(epochs)
        assert "localhost gets no workers for 1 s" in job.errors


def test_no_more_changes_than_asked_for(tmp_path: Path) -> None:
    commits = tmp_path / "commits"
    limits = ("--reset-limit", "2", "--commit-dir", str(commits))
    with digits_job(tmp_path / "events", *limits, np=2, epochs=100) as job:
        job.wait_step(5)
        job.kill(1)  # the first change; the replacement that joins is the second
        job.wait_size(1)
        job.wait_size(2)
        job.kill(0)
        job.finish_early("the membership has changed 2 times (--reset-limit)", commits)
