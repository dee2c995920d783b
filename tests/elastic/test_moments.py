"""A worker dies at the worst moments of a training; and how a training is set up."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastic.elastic_job import EPOCHS, digits_job
from elastic.ledger import of_kind
from harness.scalars import scalars

pytestmark = pytest.mark.timeout(240)


@pytest.mark.parametrize(
    ("moment", "rank"),
    [("first step", 0), ("broadcast", 0), ("evaluation", 1), ("end of an epoch", 2)],
)
def test_one_dies_in_the_middle_of(moment: str, rank: int, tmp_path: Path) -> None:
    with digits_job(tmp_path, script=("--validate",), DIE_WHILE=moment, DIE_RANK=str(rank)) as job:
        events = job.finish(EPOCHS)
        assert "was ended by signal 9" in job.errors
    for epoch in range(EPOCHS):
        logs = [event["logs"] for event in of_kind(events, "epoch") if event["epoch"] == epoch]
        assert any("val_accuracy" in one for one in logs), (epoch, logs)


def test_one_dies_in_the_middle_of_a_commit(tmp_path: Path) -> None:
    """The file of before stays; who is rank 0 now writes the next."""
    commits = tmp_path / "commits"
    launcher = ("--commit-dir", str(commits))
    with digits_job(tmp_path / "events", *launcher, DIE_WHILE="commit", DIE_RANK="0") as job:
        job.wait_change()
        job.wait_for(lambda _: bool(list(commits.glob("*.tfring"))), "a commit of another rank 0")
        job.finish(EPOCHS)
        assert "was ended by signal 9" in job.errors
    assert not commits.exists()


@pytest.mark.parametrize(
    ("script", "undone"),
    [(("--mixed-precision",), False), (("--accumulate", "3"), True)],
    ids=["mixed precision", "accumulation"],
)
def test_workers_are_killed_in_a_training_with(
    script: tuple[str, ...], undone: bool, tmp_path: Path
) -> None:
    with digits_job(tmp_path, script=script) as job:
        for step, rank in ((10, 0), (25, 1)):
            job.wait_step(step)
            job.kill(rank)
            job.wait_change()
        job.finish(EPOCHS, undone=undone)


def test_logs_and_checkpoints_go_on_when_rank_0_passes_on(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    with digits_job(tmp_path / "events", script=("--logs", str(logs))) as job:
        for step in (10, 40):
            job.wait_step(step)
            job.kill(0)
            job.wait_change()
        job.finish(EPOCHS)
    names = [f"epoch-{epoch:03}.keras" for epoch in range(1, EPOCHS + 1)]
    assert sorted(path.name for path in logs.glob("*.keras*")) == names
    for name, values in scalars(logs / "board" / "train").items():
        if name.startswith("epoch_"):
            assert {step for step, _ in values} == set(range(EPOCHS)), (name, values)
