"""Statistics of repeated measurements, and how often to repeat."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Calls are timed in batches of about so long: the barrier's own time must not show.
BATCH_S = 0.005
MAX_CALLS = 2000


def calls_per_batch(seconds: float) -> int:
    """How many calls of that duration make a batch."""
    return max(1, min(MAX_CALLS, math.ceil(BATCH_S / max(seconds, 1e-7))))


def repeats_per_round(seconds: float, round_s: float) -> int:
    """How many batches of that duration fit into a round."""
    return max(1, min(20, int(round_s / max(seconds, 1e-7))))


@dataclass(frozen=True)
class Times:
    """Seconds a call of one engine: a list for each round."""

    rounds: tuple[tuple[float, ...], ...]

    @property
    def median(self) -> float:
        """Over all rounds."""
        return statistics.median([time for times in self.rounds for time in times])

    @property
    def least(self) -> float:
        """The fastest."""
        return min(time for times in self.rounds for time in times)


def ratio(one: Times, other: Times) -> float:
    """How many times as long `one` takes as `other`: the median over rounds.

    The two were measured right after each other in each round, so what disturbs the machine
    for longer than a round disturbs both.

    Raises:
        ValueError: They had different numbers of rounds.
    """
    pairs = zip(one.rounds, other.rounds, strict=True)
    return statistics.median([statistics.median(a) / statistics.median(b) for a, b in pairs])


def rotated(names: Sequence[str], number: int) -> list[str]:
    """The names in another order each round, so that none always follows the same one."""
    start = number % len(names) if names else 0
    return [*names[start:], *names[:start]]


def as_times(samples: Mapping[str, list[list[float]]]) -> dict[str, Times]:
    """Of each engine's rounds."""
    return {name: Times(tuple(map(tuple, rounds))) for name, rounds in samples.items()}
