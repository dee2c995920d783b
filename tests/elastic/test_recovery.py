"""Workers are killed, and stopped, at all times: no sample is lost, none is used twice."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from elastic.elastic_job import EPOCHS, digits_job
from elastic.ledger import Event, of_kind

pytestmark = pytest.mark.timeout(300)


def test_nothing_happens(tmp_path: Path) -> None:
    with digits_job(tmp_path, np=2) as job:
        events = job.finish(EPOCHS)
        assert len(of_kind(events, "done")) == 2
        assert max(event["generation"] for event in events) == 1


@pytest.mark.parametrize("ranks", [[0], [2], [1, 2]], ids=str)
def test_workers_are_killed(tmp_path: Path, ranks: Sequence[int]) -> None:
    with digits_job(tmp_path) as job:
        job.wait_step(10)
        job.kill_all(ranks)
        job.wait_size(3 - len(ranks))
        job.finish(EPOCHS)


def test_one_is_killed_while_others_recover(tmp_path: Path) -> None:
    with digits_job(tmp_path) as job:
        job.wait_step(10)
        job.kill(0)
        time.sleep(0.02)
        job.kill(1)
        job.wait_size(1)
        job.finish(EPOCHS)


def test_replacements_join_and_rank_0_passes_on(tmp_path: Path) -> None:
    epochs = 30
    with digits_job(tmp_path, np=2, epochs=epochs) as job:
        for generation in (1, 3):
            job.wait_for(
                lambda events, after=generation: any(
                    event["size"] == 2 and event["generation"] >= after
                    for event in of_kind(events, "step")
                ),
                f"a step of two workers in generation {generation}",
            )
            job.kill(0)
        job.finish(epochs)
        steps = of_kind(job.events(), "step")
        for pid in {event["pid"] for event in steps}:
            traces = {event["traces"] for event in steps if event["pid"] == pid}
            assert len(traces) == 1, f"process {pid} has traced again"


def test_a_stopped_worker_is_found_by_its_silence(tmp_path: Path) -> None:
    with digits_job(tmp_path, TFRING_HEARTBEAT_TIMEOUT_S="2") as job:
        job.wait_step(10)
        job.kill(1, signal.SIGSTOP)
        job.wait_size(2)
        job.finish(EPOCHS)


def test_one_hangs_while_the_others_recover(tmp_path: Path) -> None:
    """No engine has a connection to it then: the driver has to miss its signs of life."""
    with digits_job(tmp_path, TFRING_HEARTBEAT_TIMEOUT_S="2") as job:
        job.wait_step(10)
        job.kill(1, signal.SIGSTOP)
        job.kill(0)
        job.wait_size(1)
        job.finish(EPOCHS)


def test_an_error_of_its_own_ends_the_job(tmp_path: Path) -> None:
    with digits_job(tmp_path, FAIL_AT_STEP="20", FAIL_RANK="1") as job:
        assert job.wait() == 1
        assert "a bug of the user's" in job.errors
        assert "--restart-on-error" in job.errors
        job.check_nothing_left()


def test_an_error_of_its_own_may_be_forgiven(tmp_path: Path) -> None:
    with digits_job(tmp_path, "--restart-on-error", FAIL_AT_STEP="20", FAIL_RANK="1") as job:
        job.finish(EPOCHS)


def test_too_few_workers_for_too_long(tmp_path: Path) -> None:
    commits = tmp_path / "commits"
    fatal = tmp_path / "replacements die"
    fatal.touch()
    arguments = ("--min-np", "2", "--elastic-timeout", "2", "--cooldown", "100")
    with digits_job(
        tmp_path / "events",
        *arguments,
        "--commit-dir",
        str(commits),
        np=2,
        DIE_AT_ONCE=str(fatal),
    ) as job:
        job.wait_step(10)
        job.kill(1)
        job.finish_early("at least 2 are needed", commits)


def test_a_new_start_resumes_from_the_last_commit(tmp_path: Path) -> None:
    commits = ("--commit-dir", str(tmp_path / "commits"))
    with digits_job(tmp_path / "first", *commits) as job:
        job.wait_step(40)
        job.signal(signal.SIGKILL)  # the launcher
        job.wait()
        job.check_nothing_left()
    assert list((tmp_path / "commits").glob("*.tfring"))
    with digits_job(tmp_path / "second", *commits, np=2) as job:
        assert job.wait() == 0, job.output + job.errors
        steps = [event["step"] for event in of_kind(job.events(), "step")]
        assert min(steps) > 20
        assert not list((tmp_path / "commits").glob("*.tfring"))


def test_all_are_killed_at_once(tmp_path: Path) -> None:
    """The replacements do the same as a new start; steps since the commit are done again."""
    commits = tmp_path / "commits"
    with digits_job(tmp_path / "events", "--commit-dir", str(commits), np=2) as job:
        job.wait_step(20)
        job.kill_all([0, 1])
        job.finish(EPOCHS)
        assert f"training goes on from the last commit in {commits}" in job.errors


def step_losses(events: Sequence[Event]) -> list[float]:
    """The loss of each completed step, over all its samples."""
    parts: dict[int, list[tuple[int, float]]] = {}
    completed = {(event["generation"], event["step"]) for event in of_kind(events, "step")}
    for event in of_kind(events, "loss"):
        if (event["generation"], event["step"] + 1) in completed:
            parts.setdefault(event["step"], []).append((event["samples"], event["loss"]))
    return [
        sum(n * loss for n, loss in parts[step]) / sum(n for n, _ in parts[step])
        for step in sorted(parts)
    ]


def test_the_loss_curve_is_that_of_an_undisturbed_run(tmp_path: Path) -> None:
    """200 steps; the number of workers changes three times at least.

    In float64, since training makes much of every rounding.
    """
    epochs = 9
    with digits_job(
        tmp_path / "undisturbed", np=1, epochs=epochs, script=("--dtype", "float64")
    ) as job:
        job.finish(epochs)
        expected = job.events()
    with digits_job(tmp_path / "disturbed", epochs=epochs, script=("--dtype", "float64")) as job:
        for step, rank in ((30, 1), (70, 0)):
            job.wait_step(step)
            job.kill(rank)
            job.wait_change()
        job.finish(epochs)
        events = job.events()
        assert job.newest() >= 3
    assert len(of_kind(expected, "step")) >= 190
    np.testing.assert_allclose(step_losses(events), step_losses(expected), rtol=1e-4)
