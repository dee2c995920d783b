"""Puts the parts of all ranks into one file."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from tfring.errors import TfringError
from tfring.monitoring.timeline import part as parts
from tfring.monitoring.timeline.clock import SAME_CLOCK, Alignment, Answer, align, by_wall_clock
from tfring.monitoring.timeline.events import Event, Key, RankEvents, RankRecords
from tfring.monitoring.timeline.part import Part, PartError


@dataclass(frozen=True)
class Merged:
    """What has been put together.

    Attributes:
        path: The file.
        ranks: Those in it.
        missing: Those that left nothing that can be read.
        incomplete: Those that did not end in good order.
        dropped: How many records did not fit, by rank.
    """

    path: Path
    ranks: list[int]
    missing: list[int]
    incomplete: list[int]
    dropped: dict[int, int]

    def text(self) -> str:
        """In one line, for people."""
        text = f"timeline of {len(self.ranks)} ranks in {self.path}"
        if self.missing:
            text += f"; nothing of rank {_list(self.missing)}"
        if self.incomplete:
            text += f"; rank {_list(self.incomplete)} did not end it"
        if self.dropped:
            counts = ", ".join(f"{count} of rank {rank}" for rank, count in self.dropped.items())
            text += f"; left out, being too many records: {counts}"
        return text


def parts_directory(target: Path) -> Path:
    """Where the parts of a timeline are kept until they are merged."""
    return target.with_name(target.name + ".parts")


def part_path(directory: Path, rank: int) -> Path:
    """A rank's part."""
    return directory / f"rank-{rank}.part"


def merge(
    directory: Path,
    target: Path,
    *,
    size: int | None = None,
    trust_same_clock: bool = True,
    clean_up: bool = True,
) -> Merged:
    """Makes a Chrome trace of all parts that there are.

    The file is there as a whole or not at all.

    Args:
        directory: With a file `rank-N.part` for each rank that left one.
        target: The file to write.
        size: Number of ranks of the job; default: those that have left a part.
        trust_same_clock: Take no notice of measurements where ranks read the same clock.
        clean_up: Delete the parts afterwards.

    Raises:
        TfringError: There is no part that can be read, or the file can't be written.
    """
    found = _open_all(directory, size)
    if not found:
        raise TfringError(f"timeline: no part of any rank in {directory}")
    alignments = _alignments(found, trust_same_clock)
    origin = min(alignments[part.rank](part.begin) for part in found)
    last_rank = _last_ranks(found, alignments)
    temporary = target.with_name(f".writing-{target.name}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            merged = _write(file, target, found, alignments, origin, last_rank, size)
        os.replace(temporary, target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise TfringError(
            f"timeline {target}: {error.strerror}; the parts are in {directory}"
        ) from (error)
    if clean_up:
        shutil.rmtree(directory, ignore_errors=True)
    return merged


def _open_all(directory: Path, size: int | None) -> list[Part]:
    found = []
    for path in directory.glob("rank-*.part"):
        try:
            part = Part.open(path)
        except (PartError, OSError):
            continue  # it is missing from the file, which says so
        if size is None or part.rank < size:
            found.append(part)
    return sorted(found, key=lambda part: part.rank)


def _alignments(found: list[Part], trust_same_clock: bool) -> dict[int, Alignment]:
    zero = found[0]  # rank 0, or the lowest there is
    alignments: dict[int, Alignment] = {}
    for part in found:
        same = part is zero or (trust_same_clock and part.clock and part.clock == zero.clock)
        answers = [] if same or zero.rank != 0 else _answers(part)
        if same:
            alignments[part.rank] = SAME_CLOCK
        elif answers:
            alignments[part.rank] = align(answers)
        else:
            times = (part.begin, part.begin_unix, zero.begin, zero.begin_unix)
            alignments[part.rank] = by_wall_clock(*times)
    return alignments


def _answers(part: Part) -> list[Answer]:
    return [
        Answer(record.begin, record.taken, record.end)
        for record in part.records()
        if record.type == parts.CLOCK
    ]


def _last_ranks(found: list[Part], alignments: dict[int, Alignment]) -> dict[Key, int]:
    """Who submitted an operation last, of all ranks; not where clocks leave that open."""
    latest: dict[Key, tuple[int, int, int]] = {}  # when, who, how many
    for part in found:
        records = RankRecords.read(part, alignments[part.rank])
        for key, record in records.operations:
            time, rank, count = latest.get(key, (0, 0, 0))
            if record.begin > time:
                time, rank = record.begin, part.rank
            latest[key] = (time, rank, count + 1)
    if any(alignment.uncertainty is None for alignment in alignments.values()):
        return {}
    return {key: rank for key, (_, rank, count) in latest.items() if count > 1}


def _write(
    file: TextIO,
    target: Path,
    found: list[Part],
    alignments: dict[int, Alignment],
    origin: int,
    last_rank: dict[Key, int],
    size: int | None,
) -> Merged:
    incomplete, dropped = [], {}
    file.write('{"displayTimeUnit": "ms",\n"traceEvents": [\n')
    separator = ""
    for part in found:
        # One rank at a time in memory.
        records = RankRecords.read(part, alignments[part.rank])
        if not records.ended:
            incomplete.append(part.rank)
        if records.dropped:
            dropped[part.rank] = records.dropped
        for event in RankEvents(records, origin, last_rank).all():
            file.write(separator + _json(event))
            separator = ",\n"
    ranks = [part.rank for part in found]
    expected = range(size if size is not None else max(ranks) + 1)
    missing = sorted(set(expected) - set(ranks))
    merged = Merged(target, ranks, missing, incomplete, dropped)
    file.write('\n],\n"otherData": ' + _json(_other_data(merged, found, alignments)) + "}\n")
    return merged


def _other_data(merged: Merged, found: list[Part], alignments: dict[int, Alignment]) -> Event:
    return {
        "tool": "tfring",
        "ranks": merged.ranks,
        "missing_ranks": merged.missing,
        "incomplete_ranks": merged.incomplete,
        "dropped_records": {str(rank): count for rank, count in merged.dropped.items()},
        "clocks": {
            str(part.rank): {
                "how": alignments[part.rank].how,
                "uncertainty_us": _microseconds(alignments[part.rank].uncertainty),
                "offset_us": _microseconds(alignments[part.rank].offsets[-1]),
            }
            for part in found
        },
        "began_unix_s": min(part.begin_unix for part in found) / 1e9,
    }


def _microseconds(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1000


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _list(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks))


def load_events(path: Path) -> Iterator[Event]:
    """The events of a merged file."""
    with path.open(encoding="utf-8") as file:
        yield from json.load(file)["traceEvents"]
