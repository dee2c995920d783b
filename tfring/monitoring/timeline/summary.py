"""What a timeline says in short: where the time of a step goes, and who holds up whom."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfring.errors import InvalidArgumentError
from tfring.monitoring.timeline import steps

Event = Mapping[str, Any]


@dataclass
class RankSummary:
    """Of one rank; times in milliseconds a step, means without the first step.

    Attributes:
        steps: Number of steps.
        step_ms: Time of one.
        compute_ms: Until its last bucket is submitted, and the update.
        exposed_ms: In which there are only gradients to wait for.
        wait_ms: Part of the time of buckets, before the last rank had submitted them.
        first_ms: Time of the first step, which traces.
    """

    steps: int = 0
    step_ms: float = 0.0
    compute_ms: float = 0.0
    exposed_ms: float = 0.0
    wait_ms: float = 0.0
    first_ms: float = 0.0


@dataclass
class Summary:
    """Of all ranks.

    Attributes:
        ranks: By rank.
        last: How many operations each rank was the last to submit.
        operations: How many operations there were.
        metadata: `otherData` of the file.
    """

    ranks: dict[int, RankSummary] = field(default_factory=dict)
    last: Counter[int] = field(default_factory=Counter)
    operations: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class _Step:
    begin: float
    end: float
    count: int
    exposed: float = 0.0
    waiting: float = 0.0


def load(path: Path) -> dict[str, Any]:
    """A timeline's file.

    Raises:
        InvalidArgumentError: It is something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"{path} is no timeline: {error}") from error
    if not isinstance(content, dict) or content.get("otherData", {}).get("tool") != "tfring":
        raise InvalidArgumentError(f"{path}: expected a timeline that tfring has written")
    return content


def summarize(content: Mapping[str, Any]) -> Summary:
    """Reduces the events of a timeline to a few numbers.

    Args:
        content: As `load` returns it.
    """
    summary = Summary(metadata=dict(content["otherData"]))
    by_rank: dict[int, list[Event]] = defaultdict(list)
    for event in content["traceEvents"]:
        if event["ph"] == "X":
            by_rank[event["pid"]].append(event)
    for rank in summary.metadata["ranks"]:
        summary.ranks[rank] = _rank(by_rank[rank])
    seen: dict[tuple[str, int], int] = {}
    for event in (event for events in by_rank.values() for event in events):
        if "last_rank" in event.get("args", {}):
            seen[event["name"], event["args"]["occurrence"]] = event["args"]["last_rank"]
    summary.operations = len(seen)
    summary.last = Counter(seen.values())
    return summary


def _rank(events: Iterable[Event]) -> RankSummary:
    events = sorted(events, key=lambda event: event["ts"])
    found = [
        _Step(event["ts"], event["ts"] + event["dur"], max(1, event["args"]["steps"]))
        for event in events
        if event.get("cat") == "step"
    ]
    if not found:
        return RankSummary()
    at = 0
    for event in events:
        while at + 1 < len(found) and event["ts"] >= found[at + 1].begin:
            at += 1
        if not found[at].begin <= event["ts"] <= found[at].end:
            continue
        if event["name"] == steps.EXPOSED:
            found[at].exposed += event["dur"]
        elif event.get("cat") == "wait":
            found[at].waiting += event["dur"]
    counted = found[1:] or found
    count = sum(step.count for step in counted)
    means = {
        name: sum(value(step) for step in counted) / count / 1000
        for name, value in (
            ("step_ms", lambda step: step.end - step.begin),
            ("compute_ms", lambda step: step.end - step.begin - step.exposed),
            ("exposed_ms", lambda step: step.exposed),
            ("wait_ms", lambda step: step.waiting),
        )
    }
    first_ms = (found[0].end - found[0].begin) / 1000
    return RankSummary(steps=sum(step.count for step in found), first_ms=first_ms, **means)


def text(summary: Summary) -> str:
    """The summary for people."""
    lines = ["rank  steps  step ms  compute  exposed  waits ms  last to come"]
    for rank, of_rank in summary.ranks.items():
        whole = of_rank.step_ms or 1.0
        compute = of_rank.compute_ms / whole
        last = summary.last[rank] / summary.operations if summary.operations else 0.0
        lines.append(
            f"{rank:4}  {of_rank.steps:5}  {of_rank.step_ms:7.2f}  {compute:6.1%}"
            f"  {of_rank.exposed_ms / whole:7.1%}  {of_rank.wait_ms:8.2f}  {last:12.1%}"
        )
    if not any(of_rank.steps for of_rank in summary.ranks.values()):
        lines.append("No step is marked: use BroadcastInitialVariables in fit, or")
        lines.append("tfring.timeline_step() in a loop of your own.")
    elif summary.operations and len(summary.ranks) > 1:
        rank, count = summary.last.most_common(1)[0]
        lines.append(
            f"Rank {rank} is the last most often: {count} of {summary.operations} operations "
            "waited for it."
        )
    for what, ranks in (
        ("Nothing is known of", summary.metadata["missing_ranks"]),
        ("The end is missing of", summary.metadata["incomplete_ranks"]),
        ("There was no room for all of", list(summary.metadata["dropped_records"])),
    ):
        if ranks:
            lines.append(f"{what} rank {', '.join(map(str, ranks))}.")
    clocks = summary.metadata["clocks"].values()
    known = [clock["uncertainty_us"] for clock in clocks]
    if None in known:
        lines.append("Some clocks could not be aligned: compare times of one rank only.")
    else:
        lines.append(f"Clocks agree to within {max(known):g} us.")
    return "\n".join(lines)
