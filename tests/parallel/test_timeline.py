"""Timelines of real jobs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import keras
import numpy as np
import pytest

import tfring
from harness.launched import PYTHON, tfringrun
from harness.timeline_parts import check_nesting
from tfring import arrays, engine, errors
from tfring.monitoring.timeline import steps
from tfring.monitoring.timeline.merge import merge
from tfring.monitoring.timeline.summary import load, summarize

STEPS = 6
# A barrier ends on all ranks at about the same time; the scheduler may keep a thread waiting.
SLACK_US = 1e6


def convolutional(layers: int = 3) -> keras.Model:
    """Enough gradients for several buckets, the largest of them made first."""
    keras.utils.set_random_seed(1)
    return keras.Sequential(
        [
            keras.Input((24, 24, 3)),
            *(keras.layers.Conv2D(16, 3, activation="relu") for _ in range(layers)),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def train(path: str | None = None, **options) -> None:
    generator = np.random.default_rng(engine.rank())
    x = generator.standard_normal((STEPS * 8, 24, 24, 3)).astype("float32")
    y = generator.integers(0, 10, STEPS * 8)
    model = convolutional()
    optimizer = tfring.DistributedOptimizer("sgd", bucket_bytes=50_000)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, **options)
    callbacks = [tfring.callbacks.BroadcastInitialVariables()]
    if path is not None:
        tfring.start_timeline(path)
    arrays.barrier(name="both")
    model.fit(x, y, batch_size=8, verbose=0, callbacks=callbacks)
    if path is not None:
        tfring.stop_timeline()


def of(events: list[dict], rank: int, **fields) -> list[dict]:
    found = [
        event
        for event in events
        if event["pid"] == rank and all(event.get(name) == value for name, value in fields.items())
    ]
    return sorted(found, key=lambda event: event["ts"])


def end(event: dict) -> float:
    return event["ts"] + event["dur"]


def check_training(content: dict, ranks: int) -> None:
    """What the timeline of `train` has to show."""
    events = content["traceEvents"]
    assert content["otherData"]["ranks"] == list(range(ranks))
    assert content["otherData"]["incomplete_ranks"] == []
    check_nesting(events)
    barriers = []
    for rank in range(ranks):
        found = of(events, rank, cat="step")
        assert len(found) == STEPS
        for step in found:
            check_step(events, rank, step)
        barriers += of(events, rank, name="both", ph="X")
    clocks = content["otherData"]["clocks"].values()
    slack = max(clock["uncertainty_us"] for clock in clocks) + SLACK_US
    ends = [end(barrier) for barrier in barriers]
    assert len(ends) == ranks and max(ends) - min(ends) <= slack
    # Nobody leaves a barrier before everybody has entered it.
    uncertainty = max(clock["uncertainty_us"] for clock in clocks)
    assert max(barrier["ts"] for barrier in barriers) <= min(ends) + 2 * uncertainty


def check_step(events: list[dict], rank: int, step: dict) -> None:
    inside = [
        event
        for event in of(events, rank, ph="X")
        if step["ts"] <= event["ts"] and end(event) <= end(step) + 0.002  # rounding
    ]
    phase = {event["name"]: event for event in inside if event.get("cat") == "phase"}
    outer = [phase[name] for name in (steps.FORWARD_BACKWARD, steps.EXPOSED, steps.UPDATE)]
    assert sum(event["dur"] for event in outer) == pytest.approx(step["dur"], abs=0.01)
    buckets = [event for event in inside if event.get("cat") == "bucket"]
    assert len(buckets) >= 2
    # The first bucket began while backpropagation went on.
    first = min(buckets, key=lambda bucket: bucket["ts"])
    assert step["ts"] < first["ts"] < end(phase[steps.FORWARD_BACKWARD])
    assert phase[steps.OVERLAPPED]["dur"] > 0
    for bucket in buckets:
        work = [event for event in inside if event.get("cat") == "work"]
        assert bucket["args"]["reduce_us"] + bucket["args"]["copy_us"] > 0
        assert work


def record(path: str) -> None:
    train(path)


def test_overlap_in_fit(warm_ranks, ranks, tmp_path):
    warm_ranks(record, str(tmp_path / "t.json"))
    content = load(tmp_path / "t.json")
    check_training(content, ranks)
    overlapped = 0
    for rank in range(ranks):
        for step in of(content["traceEvents"], rank, cat="step"):
            (backward,) = [
                event
                for event in of(content["traceEvents"], rank, name=steps.FORWARD_BACKWARD)
                if step["ts"] <= event["ts"] <= end(step)
            ]
            started = [
                event["ts"]
                for event in of(content["traceEvents"], rank, cat="transfer")
                if step["ts"] <= event["ts"] <= end(step)
            ]
            overlapped += min(started) < end(backward)
    # Reductions started before backpropagation had ended; a rank that comes last throughout a
    # step can't show it in that step.
    assert overlapped > 0
    summary = summarize(content)
    assert all(of_rank.steps == STEPS for of_rank in summary.ranks.values())
    assert list(tmp_path.iterdir()) == [tmp_path / "t.json"]


def many_at_once(path: str) -> None:
    train(path, steps_per_execution=2)


def test_several_steps_per_execution(warm_ranks, ranks, tmp_path):
    warm_ranks(many_at_once, str(tmp_path / "t.json"))
    content = load(tmp_path / "t.json")
    check_nesting(content["traceEvents"])
    assert [s["args"]["steps"] for s in of(content["traceEvents"], 0, cat="step")] == [2, 2, 2]
    forward = of(content["traceEvents"], 0, name=steps.FORWARD_BACKWARD)
    assert len(forward) == STEPS


def own_loop(path: str) -> None:
    tfring.start_timeline(path, detail=True)
    with pytest.raises(errors.InvalidArgumentError, match="recorded already"):
        tfring.start_timeline(path)
    for _ in range(3):
        with tfring.timeline_step():
            arrays.allreduce_arrays([np.ones(1000)], name="mine/sum/bucket0")
    tfring.stop_timeline()
    tfring.stop_timeline()
    with tfring.timeline_step():
        arrays.barrier()


def test_loops_of_ones_own_in_detail(warm_ranks, ranks, tmp_path):
    warm_ranks(own_loop, str(tmp_path / "t.json"))
    events = load(tmp_path / "t.json")["traceEvents"]
    check_nesting(events)
    for rank in range(ranks):
        assert len(of(events, rank, cat="step")) == 3
        assert len(of(events, rank, cat="bucket")) == 3
        pieces = of(events, rank, tid=2, ph="X")
        assert {"reduce", "send"} <= {piece["name"] for piece in pieces}
        assert all(piece["args"]["operation"] == "mine/sum/bucket0" for piece in pieces)


SCRIPT = """
import numpy, os, signal, tfring
from tfring.arrays import allreduce_arrays
tfring.init()
for step in range(30):
    with tfring.timeline_step():
        allreduce_arrays([numpy.ones(50000)], name="gradients")
"""


def test_the_launcher_merges(tmp_path: Path) -> None:
    result = tfringrun("-np", "2", "--timeline", "t.json", PYTHON, "-c", SCRIPT, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "tfringrun: timeline of 2 ranks in" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]
    content = load(tmp_path / "t.json")
    assert content["otherData"]["incomplete_ranks"] == []
    for rank in range(2):
        names = [event["name"] for event in content["traceEvents"] if event["pid"] == rank]
        assert names.count("gradients") == 30
        assert f"engine starts: rank {rank} of 2" in names and "engine shuts down" in names


def test_a_killed_rank_does_not_spoil_the_file(tmp_path: Path) -> None:
    script = SCRIPT + (
        "import time\ntime.sleep(1)\n"
        "if tfring.rank() == 1: os.kill(os.getpid(), signal.SIGKILL)\n"
        "allreduce_arrays([numpy.ones(5)], name='never')\n"
    )
    result = tfringrun("-np", "2", "--timeline", "t.json", PYTHON, "-c", script, cwd=tmp_path)
    assert result.returncode == 137
    content = load(tmp_path / "t.json")
    assert content["otherData"]["ranks"] == [0, 1]
    assert 1 in content["otherData"]["incomplete_ranks"]
    for rank in range(2):
        assert len(of(content["traceEvents"], rank, name="gradients")) == 30
    check_nesting(content["traceEvents"])


def measure_clocks(path: str) -> None:
    from tfring.monitoring.timeline.recording import Recording

    recording = Recording.start(engine.config(), path, detail=False)
    for _ in range(15):  # a rank asks within a tenth of a second
        arrays.barrier(name="both")
        time.sleep(0.02)
    recording.end_part()


def test_measured_clocks_agree_with_the_truth(warm_ranks, ranks, tmp_path):
    """All ranks read one clock here, so every measurement must find a difference of about 0."""
    warm_ranks(measure_clocks, str(tmp_path / "t.json"))
    (directory,) = tmp_path.glob("t.json.parts-*")
    merge(directory, tmp_path / "t.json", size=ranks, trust_same_clock=False)
    clocks = load(tmp_path / "t.json")["otherData"]["clocks"]
    for rank in range(1, ranks):
        clock = clocks[str(rank)]
        assert "exchanges with rank 0" in clock["how"]
        assert abs(clock["offset_us"]) <= clock["uncertainty_us"]


def without_launcher() -> None:
    engine.init()
    arrays.barrier(name="both")
    engine.shutdown()


def test_without_a_launcher_rank_0_merges(run_ranks, tmp_path):
    path = tmp_path / "t.json"
    variables = {"TFRING_TIMELINE": str(path)}
    run_ranks(without_launcher, np=3, bare=True, init=False, env=variables)
    assert load(path)["otherData"]["ranks"] == [0, 1, 2]
    assert [found.name for found in tmp_path.iterdir()] == ["t.json"]


def survive_a_loss() -> None:
    engine.init()
    arrays.barrier(name="both")
    if engine.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(errors.PeerLostError):
        arrays.barrier(name="again")
    with (
        pytest.warns(RuntimeWarning, match="rank 1 did not end it")
        if engine.rank() == 0
        else (pytest.MonkeyPatch.context())
    ):
        engine.shutdown()


def test_without_a_launcher_and_with_a_loss(run_ranks, tmp_path):
    path = tmp_path / "t.json"
    variables = {"TFRING_TIMELINE": str(path)}
    run_ranks(survive_a_loss, np=3, bare=True, init=False, env=variables, may_die=[1])
    content = load(path)
    assert content["otherData"]["ranks"] == [0, 1, 2]
    errors_shown = [e for e in content["traceEvents"] if e.get("cat") == "error"]
    assert any("lost rank 1" in event["name"] for event in errors_shown)
    failed = [e for e in content["traceEvents"] if e.get("args", {}).get("error")]
    assert {event["args"]["error"] for event in failed} == {"PeerLostError"}


def test_the_summary_is_a_command(tmp_path: Path) -> None:
    tfringrun("-np", "2", "--timeline", "t.json", PYTHON, "-c", SCRIPT, cwd=tmp_path)
    shown = subprocess.run(
        [sys.executable, "-m", "tfring.monitoring.timeline", str(tmp_path / "t.json")],
        *(), capture_output=True, text=True, timeout=60, check=True,
    ).stdout  # fmt: skip
    assert "is the last most often" in shown
    json.loads((tmp_path / "t.json").read_text())
