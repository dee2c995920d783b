"""Training loops of one's own, whose workers are killed: each sample once."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastic.elastic_job import ElasticJob

pytestmark = pytest.mark.timeout(300)

PROGRAM = Path(__file__).with_name("train_by_hand.py")
SAMPLES, EPOCHS = 203, 4


@pytest.mark.parametrize("batch", [("batch_size", "3"), ("global_batch_size", "10")], ids=str)
def test_workers_are_killed_and_replaced(tmp_path: Path, batch: tuple[str, str]) -> None:
    launcher = ("-np", "3", "--min-np", "1", "--max-np", "3")
    with ElasticJob(tmp_path, *launcher, program=PROGRAM, script=batch) as job:
        for step, rank in ((8, 0), (20, 1)):
            job.wait_step(step)
            job.kill(rank)
            job.wait_change()
        job.finish(EPOCHS, samples=SAMPLES, accuracy=0.99)
