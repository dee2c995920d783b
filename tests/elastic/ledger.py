"""What the processes of a job have written down (train_digits.py), and whether it adds up."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Event = dict[str, Any]


def read_events(directory: Path) -> list[Event]:
    """All events so far, in the order of time."""
    events = []
    for path in directory.glob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n"):  # else it is being written
                events.append(json.loads(line))
    return sorted(events, key=lambda event: event["time"])


def of_kind(events: Iterable[Event], kind: str) -> list[Event]:
    return [event for event in events if event["kind"] == kind]


def consumed(events: Iterable[Event], *, undone: bool = False) -> dict[int, list[int]]:
    """By number of step: the samples that the completed step was made of.

    A step counts in the latest generation in which any process has completed it. Processes may
    have begun it before in vain; one that has completed it before must have been lost then, with
    all others that had, or the step would have been lost with a survivor at hand; unless steps may
    be `undone`.
    """
    completed: dict[int, set[int]] = defaultdict(set)
    last_seen: dict[int, int] = {}
    by: dict[tuple[int, int], set[int]] = defaultdict(set)
    attempts: dict[tuple[int, int], list[int]] = defaultdict(list)
    for event in events:
        if event["kind"] == "step":
            completed[event["step"]].add(event["generation"])
            by[event["generation"], event["step"]].add(event["pid"])
            last_seen[event["pid"]] = max(last_seen.get(event["pid"], 0), event["generation"])
        elif event["kind"] == "attempt":
            attempts[event["generation"], event["step"] + 1] += event["indices"]
    samples = {}
    for step, generations in completed.items():
        latest = max(generations)
        for earlier in generations - {latest}:
            survivors = [pid for pid in by[earlier, step] if last_seen[pid] > earlier]
            assert undone or not survivors, (
                f"step {step} of generation {earlier} was lost by {survivors}"
            )
        samples[step] = attempts[latest, step]
    return samples


def check_each_sample_once(
    events: list[Event], samples: int, epochs: int, *, undone: bool = False
) -> None:
    """Each sample of each epoch is part of exactly one completed step, and no step is missing."""
    by_step = consumed(events, undone=undone)
    steps = sorted(by_step)
    assert steps == list(range(1, len(steps) + 1)), f"steps are missing: {steps}"
    order = [index for step in steps for index in by_step[step]]
    assert len(order) == samples * epochs, (len(order), samples, epochs)
    for epoch in range(epochs):
        counts = Counter(order[epoch * samples : (epoch + 1) * samples])
        wrong = {index: counts[index] for index in range(samples) if counts[index] != 1}
        assert not wrong, f"epoch {epoch}: times that samples were used: {wrong}"
