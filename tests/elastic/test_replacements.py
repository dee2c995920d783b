"""Replacements of lost workers: how often, how soon, and how many times."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastic.elastic_job import ElasticJob

pytestmark = pytest.mark.timeout(180)


def job_of(directory: Path, *launcher: str, epochs: int, **env: str) -> ElasticJob:
    return ElasticJob(
        *(directory, "-np", "2", "--min-np", "1", *launcher),
        script=("--epochs", str(epochs), "--step-s", "0.03"),
        env=env,
    )


def test_a_host_that_keeps_failing_is_set_aside_and_comes_back(tmp_path: Path) -> None:
    epochs = 40
    fatal = tmp_path / "replacements die"
    fatal.touch()
    with job_of(
        tmp_path / "events", "--cooldown", "1", epochs=epochs, DIE_AT_ONCE=str(fatal)
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
    with job_of(tmp_path / "events", *limits, epochs=100) as job:
        job.wait_step(5)
        job.kill(1)  # the first change; the replacement that joins is the second
        job.wait_size(1)
        job.wait_size(2)
        job.kill(0)
        assert job.wait() == 1
        assert "the membership has changed 2 times (--reset-limit)" in job.errors
        assert "has saved" in job.errors
        assert list(commits.glob("*.tfring"))
        job.check_nothing_left()
