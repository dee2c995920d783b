"""Measures several groups on the same work, in turns."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.group import Group
from benchmarks.timing import Times, as_times, calls_per_batch, repeats_per_round, rotated
from benchmarks.workloads import Workload


@dataclass(frozen=True)
class Effort:
    """How much time to spend on a workload.

    Attributes:
        rounds: How often each group has its turn, at most.
        round_s: About how long a turn is; at least one batch is measured.
        limit_s: No further round begins after so long.
        least_rounds: So many are made in any case.
    """

    rounds: int
    round_s: float
    limit_s: float
    least_rounds: int = 3


QUICK = Effort(rounds=3, round_s=0.01, limit_s=5.0)
NORMAL = Effort(rounds=15, round_s=0.05, limit_s=8.0)
FULL = Effort(rounds=41, round_s=0.1, limit_s=60.0, least_rounds=7)


@dataclass(frozen=True)
class Contestant:
    """A group, and what it has to do."""

    group: Group
    work: Workload


# A turn begins with a batch that is not counted, unless that would cost too much time.
_UNCOUNTED_LIMIT_S = 1.0


def _calibrate(group: Group, key: str) -> tuple[int, float]:
    """Calls per batch for this group, and how long a batch takes."""
    calls = 1
    seconds = group.measure(key, calls, 1)[0]
    if seconds < _UNCOUNTED_LIMIT_S:
        seconds = min(group.measure(key, calls, 3))
    while (wanted := calls_per_batch(seconds)) > 2 * calls:
        calls = min(wanted, 10 * calls)
        seconds = min(group.measure(key, calls, 3))
    return calls, calls * seconds


def measure(contestants: Mapping[str, Contestant], effort: Effort) -> dict[str, Times]:
    """Times of every contestant.

    In each round every contestant has a turn, during which the others sleep. A turn begins
    with a batch that is not counted, since its memory has been pushed out of the caches.
    """
    plans: dict[str, tuple[int, int, int]] = {}
    for name, one in contestants.items():
        one.group.prepare(name, one.work)
        calls, batch_s = _calibrate(one.group, name)
        repeats = repeats_per_round(batch_s, effort.round_s)
        plans[name] = (calls, repeats, int(batch_s < _UNCOUNTED_LIMIT_S))
    samples: dict[str, list[list[float]]] = {name: [] for name in contestants}
    began = time.monotonic()
    for number in range(effort.rounds):
        if number >= effort.least_rounds and time.monotonic() - began > effort.limit_s:
            break
        for name in rotated(list(contestants), number):
            calls, repeats, uncounted = plans[name]
            times = contestants[name].group.measure(name, calls, uncounted + repeats)
            samples[name].append(times[uncounted:])
    for one in contestants.values():
        one.group.command("forget")
    return as_times(samples)
