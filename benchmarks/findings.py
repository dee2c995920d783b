"""What a run has measured so far, in one place: tables, charts and targets read it."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any

from benchmarks.timing import Times, ratio

# Section, number of processes, name of the workload.
Place = tuple[str, int, str]


@dataclass
class Findings:
    """Times by place and contestant, and single figures.

    Attributes:
        times: Of all contestants of a workload, which took turns.
        figures: Other numbers, by section, number of processes and what they are of.
        left_out: Engines that were not measured, with the reason.
    """

    times: dict[Place, dict[str, Times]] = field(default_factory=dict)
    figures: dict[Place, float] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def ratio(self, place: Place, one: str, other: str) -> float | None:
        """How many times as long `one` takes as `other`; None if either was not measured."""
        measured = self.times.get(place, {})
        if one not in measured or other not in measured:
            return None
        return ratio(measured[one], measured[other])

    def difference(self, place: Place, one: str, other: str) -> float | None:
        """Seconds that `one` takes longer than `other`: the median over rounds."""
        measured = self.times.get(place, {})
        if one not in measured or other not in measured:
            return None
        pairs = zip(measured[one].rounds, measured[other].rounds, strict=True)
        return statistics.median([statistics.median(a) - statistics.median(b) for a, b in pairs])

    def ratio_beyond(self, place: Place, base: str, one: str, other: str) -> float | None:
        """The ratio of what two contestants take longer than a third, which is part of both."""
        added = [self.difference(place, name, base) for name in (one, other)]
        if added[0] is None or added[1] is None or added[1] <= 0:
            return None
        return added[0] / added[1]

    def median(self, place: Place, one: str) -> float | None:
        """Seconds that a contestant takes; None if it was not measured."""
        measured = self.times.get(place, {})
        return measured[one].median if one in measured else None

    def works(self, section: str, size: int) -> list[str]:
        """Names of the workloads measured there, in order."""
        return [work for where, ranks, work in self.times if (where, ranks) == (section, size)]

    def records(self) -> list[dict[str, Any]]:
        """For a report's data: seconds a call, the median of each round beside the whole's."""
        found: list[dict[str, Any]] = []
        for (section, size, work), measured in self.times.items():
            for name, times in measured.items():
                medians = [float(f"{statistics.median(r):.6g}") for r in times.rounds]
                found.append(
                    {
                        "section": section,
                        "processes": size,
                        "work": work,
                        "engine": name,
                        "median_s": times.median,
                        "min_s": times.least,
                        "rounds_s": medians,
                    }
                )
        for (section, size, name), value in self.figures.items():
            found.append({"section": section, "processes": size, "of": name, "value": value})
        return found
