"""What is made of the engine's counters."""

from __future__ import annotations

import dataclasses

import pytest

from tfring import engine
from tfring.monitoring import communication
from tfring.monitoring.communication import CommunicationMonitor, Sample, scalars

ZERO = engine.Counters(**{field.name: 0 for field in dataclasses.fields(engine.Counters)})


def test_times_are_per_step_and_means_over_ranks() -> None:
    samples = [
        Sample(steps=10, step_s=2.0, allreduce_s=0.5, exposed_s=0.1, wait_s=0.4, bytes=4e7),
        Sample(steps=10, step_s=4.0, allreduce_s=0.3, exposed_s=0.2, wait_s=0.0, bytes=4e7),
    ]
    assert scalars(samples) == pytest.approx(
        {
            "step_time_s": 0.3,
            "allreduce_time_s": 0.04,
            "allreduce_mb": 4.0,
            "allreduce_gb_per_s": 0.1,
            "exposed_communication": 0.05,
            "wait_time_s/rank_0": 0.04,
            "wait_time_s/rank_1": 0.0,
        }
    )


def test_nothing_to_show_without_steps_or_communication() -> None:
    assert scalars([Sample(0, 0, 0, 0, 0, 0)]) == {}
    alone = scalars([Sample(5, 1.0, 0, 0, 0, 0)])
    assert alone["step_time_s"] == pytest.approx(0.2)
    assert alone["allreduce_gb_per_s"] == alone["exposed_communication"] == 0


def test_only_what_happens_during_steps_counts(monkeypatch) -> None:
    now = [ZERO]
    clock = [0.0]
    monkeypatch.setattr(engine, "counters", lambda: now[0])
    monkeypatch.setattr(communication.time, "perf_counter", lambda: clock[0])

    def pass_time(seconds: float, **changes: float) -> None:
        clock[0] += seconds
        tail = changes.pop("allreduce_tail_seconds", now[0].allreduce_tail_seconds)
        grown = {name: getattr(now[0], name) + value for name, value in changes.items()}
        now[0] = dataclasses.replace(now[0], **grown, allreduce_tail_seconds=tail)

    monitor = CommunicationMonitor()
    step = {
        "allreduce_operations": 3,
        "allreduce_bytes": 100,
        "allreduce_busy_seconds": 0.25,
        "wait_seconds": 0.125,
        "allreduce_tail_seconds": 0.0625,
    }
    for _ in range(2):
        monitor.begin_step()
        pass_time(1.0, **step)
        monitor.end_step()
        pass_time(5.0, **step)  # metrics, validation, ...
    assert monitor.sample() == Sample(2, 2.0, 0.5, 0.125, 0.25, 200)
    monitor.begin_step()
    pass_time(1.0)  # a step that only accumulates gradients
    monitor.end_step()
    assert monitor.sample() == Sample(3, 3.0, 0.5, 0.125, 0.25, 200)
    monitor.begin_step()
    pass_time(4.0, **step)
    monitor.end_step(4)
    assert monitor.sample() == Sample(7, 7.0, 0.75, 0.375, 0.375, 300)
    monitor.restart()
    assert monitor.sample() == Sample(0, 0, 0, 0, 0, 0)
