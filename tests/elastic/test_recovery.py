"""Workers are killed, and stopped, at all times: no sample is lost, none is used twice."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from elastic.elastic_job import DIGITS, ElasticJob
from elastic.ledger import check_each_sample_once, of_kind

pytestmark = pytest.mark.timeout(300)

EPOCHS = 4


def finish(job: ElasticJob, *, workers: int | None = None) -> None:
    """Waits for the end of the job, and checks all that must be true of any."""
    assert job.wait() == 0, job.output + job.errors
    events = job.events()
    check_each_sample_once(events, DIGITS, EPOCHS)
    done = of_kind(events, "done")
    assert len({event["digest"] for event in done}) == 1
    assert all(event["accuracy"] > 0.9 for event in done)
    if workers is not None:
        assert len(done) == workers
    job.check_nothing_left()


def job_of(
    directory: Path, *launcher: str, np: int = 3, env: dict[str, str] | None = None
) -> ElasticJob:
    script = ("--epochs", str(EPOCHS), "--step-s", "0.03")
    return ElasticJob(directory, "-np", str(np), "--min-np", "1", *launcher, script=script, env=env)


def test_nothing_happens(tmp_path: Path) -> None:
    with job_of(tmp_path, np=2) as job:
        finish(job, workers=2)
        assert max(event["generation"] for event in job.events()) == 1


@pytest.mark.parametrize("ranks", [[0], [2], [1, 2]], ids=str)
def test_workers_are_killed(tmp_path: Path, ranks: Sequence[int]) -> None:
    with job_of(tmp_path) as job:
        job.wait_step(10)
        job.kill_all(ranks)
        job.wait_size(3 - len(ranks))
        finish(job)


def test_one_is_killed_while_others_recover(tmp_path: Path) -> None:
    with job_of(tmp_path) as job:
        job.wait_step(10)
        job.kill(0)
        time.sleep(0.02)
        job.kill(1)
        job.wait_size(1)
        finish(job)


def test_replacements_join_and_rank_0_passes_on(tmp_path: Path) -> None:
    with job_of(tmp_path, np=2) as job:
        for _ in range(2):
            before = job.wait_size(2)
            job.kill(0)
            job.wait_for(
                lambda events, n=len(before): (
                    any(e["size"] == 2 for e in of_kind(events, "step")[n:])
                    or of_kind(events, "step")[-1]["size"] == 2
                    and of_kind(events, "step")[-1]["generation"]
                    > of_kind(before, "step")[-1]["generation"] + 1
                ),
                "two workers again",
            )
        finish(job)
        for pid in {event["pid"] for event in of_kind(job.events(), "step")}:
            traces = [e["traces"] for e in of_kind(job.events(), "step") if e["pid"] == pid]
            assert len(set(traces)) == 1, "a worker has traced again"


def test_a_stopped_worker_is_found_by_its_silence(tmp_path: Path) -> None:
    with job_of(tmp_path, env={"TFRING_HEARTBEAT_TIMEOUT_S": "2"}) as job:
        job.wait_step(10)
        job.kill(1, signal.SIGSTOP)
        job.wait_size(2)
        finish(job)


def test_an_error_of_its_own_ends_the_job(tmp_path: Path) -> None:
    with job_of(tmp_path, env={"FAIL_AT_STEP": "20", "FAIL_RANK": "1"}) as job:
        assert job.wait() == 1
        assert "a bug of the user's" in job.errors
        assert "--restart-on-error" in job.errors
        job.check_nothing_left()


def test_an_error_of_its_own_may_be_forgiven(tmp_path: Path) -> None:
    env = {"FAIL_AT_STEP": "20", "FAIL_RANK": "1"}
    with job_of(tmp_path, "--restart-on-error", env=env) as job:
        finish(job)


def test_too_few_workers_for_too_long(tmp_path: Path) -> None:
    commits = tmp_path / "commits"
    arguments = ("--min-np", "2", "--elastic-timeout", "2", "--cooldown", "100")
    with job_of(
        tmp_path / "events",
        *arguments,
        "--commit-dir",
        str(commits),
        np=2,
        env={"DIE_AT_ONCE": "1"},
    ) as job:
        job.wait_step(10)
        job.kill(1)
        assert job.wait() == 1
        assert "at least 2 are needed" in job.errors
        assert "has saved" in job.errors
        assert list(commits.glob("*.tfring"))
        job.check_nothing_left()


def test_a_new_start_resumes_from_the_last_commit(tmp_path: Path) -> None:
    commits = ("--commit-dir", str(tmp_path / "commits"))
    with job_of(tmp_path / "first", *commits) as job:
        job.wait_step(40)
        job.signal(signal.SIGKILL)  # the launcher
        job.wait()
        job.check_nothing_left()
    assert list((tmp_path / "commits").glob("*.tfring"))
    with job_of(tmp_path / "second", *commits, np=2) as job:
        assert job.wait() == 0, job.output + job.errors
        steps = [event["step"] for event in of_kind(job.events(), "step")]
        assert min(steps) > 20
        assert not list((tmp_path / "commits").glob("*.tfring"))
