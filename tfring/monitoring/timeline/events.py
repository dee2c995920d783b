"""The Chrome trace events of one rank.

The format is described in "Trace Event Format" (the Catapult project). A rank is a process
there. Its rows (threads) are the training step, the engine, and as many for operations as ran
at once; a counter shows the bytes of operations that are not done.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfring.errors import error_for
from tfring.monitoring.timeline import part as parts
from tfring.monitoring.timeline import steps
from tfring.monitoring.timeline.clock import Alignment
from tfring.monitoring.timeline.lanes import Lanes
from tfring.monitoring.timeline.part import Part, Record

Event = dict[str, Any]
# An operation on all ranks: the rendezvous it came after, and the record's key.
Key = tuple[int, tuple[int, int, int]]

STEPS_ROW, ENGINE_ROW, FIRST_OPERATION_ROW = 1, 2, 10
LEVELS = ("debug", "info", "warning", "error")


@dataclass
class RankRecords:
    """What a part says, by rank 0's clock.

    Attributes:
        part: The part.
        alignment: Of its clock.
        operations: In the order of submission, each with its key.
        spans, pieces: In the order of their beginning.
        instants: Messages, starts and ends of engines.
        dropped: Records that did not fit.
        ended: Whether the rank ended its part.
    """

    part: Part
    alignment: Alignment
    operations: list[tuple[Key, Record]] = field(default_factory=list)
    spans: list[Record] = field(default_factory=list)
    pieces: list[Record] = field(default_factory=list)
    instants: list[Record] = field(default_factory=list)
    dropped: int = 0
    ended: bool = False

    @classmethod
    def read(cls, part: Part, alignment: Alignment) -> RankRecords:
        """Reads all records."""
        read = cls(part, alignment)
        generation = 0
        for record in part.records():
            record = _aligned(record, alignment)
            if record.type == parts.START:
                generation += 1
            if record.type == parts.OPERATION:
                read.operations.append(((generation, record.key), record))
            elif record.type == parts.SPAN:
                read.spans.append(record)
            elif record.type == parts.PIECE:
                read.pieces.append(record)
            elif record.type in (parts.INSTANT, parts.START, parts.SHUT_DOWN):
                read.instants.append(record)
            elif record.type == parts.END:
                read.dropped, read.ended = record.bytes, True
        read.operations.sort(key=lambda operation: operation[1].begin)
        read.spans.sort(key=lambda span: (span.begin, -span.end))
        read.pieces.sort(key=lambda piece: piece.begin)
        return read

    @property
    def rank(self) -> int:
        return self.part.rank


def _aligned(record: Record, to_zero: Callable[[int], int]) -> Record:
    def aligned(time: int) -> int:
        return to_zero(time) if time else 0

    return record._replace(
        begin=aligned(record.begin),
        end=aligned(record.end),
        taken=aligned(record.taken),
        started=aligned(record.started),
    )


class RankEvents:
    """Makes events of a rank's records.

    Args:
        records: Of the rank.
        origin: The time that becomes 0; nanoseconds.
        last_rank: Of operations that all ranks have recorded: who submitted last.
        detail: Show single pieces of work, if there are any.
    """

    def __init__(
        self, records: RankRecords, origin: int, last_rank: Mapping[Key, int], detail: bool = True
    ) -> None:
        self._records = records
        self._origin = origin
        self._last_rank = last_rank
        self._detail = detail
        self._rows = 0

    def all(self) -> Iterator[Event]:
        """Every event; spans within others after those."""
        yield from self._steps()
        yield from self._operations()
        yield from self._pieces()
        yield from self._instants()
        yield from self._counter()
        yield from self._names()

    # ---- Rows ---------------------------------------------------------------------------

    def _steps(self) -> Iterator[Event]:
        buckets = [r for _, r in self._records.operations if steps.is_bucket(r)]
        begins = [bucket.begin for bucket in buckets]
        number = 0
        for span in self._records.spans:
            if span.text != steps.STEP:
                yield self._span(STEPS_ROW, span.text, span.begin, span.end, {})
                continue
            yield self._span(
                STEPS_ROW, f"step {number}", span.begin, span.end, {"steps": span.bytes}, "step"
            )
            number += max(1, span.bytes)
            first = bisect.bisect_left(begins, span.begin)
            behind = bisect.bisect_right(begins, span.end)
            for phase in steps.phases(span.begin, span.end, buckets[first:behind]):
                yield self._span(STEPS_ROW, phase.name, phase.begin, phase.end, {}, "phase")

    def _operations(self) -> Iterator[Event]:
        lanes = Lanes()
        for key, record in self._records.operations:
            row = FIRST_OPERATION_ROW + lanes.take(record.begin, record.end)
            yield from self._operation(row, key, record)
        self._rows = lanes.count

    def _operation(self, row: int, key: Key, record: Record) -> Iterator[Event]:
        kind = _name(parts.KINDS, record.kind)
        last = self._last_rank.get(key, record.rank)
        arguments = {
            "kind": kind,
            "occurrence": record.occurrence,
            "bytes": record.bytes,
            "tensors": record.tensors,
            "last_rank": last,
            "link_wait_us": record.link_wait / 1000,
            **{
                f"{piece}_us": work / 1000
                for piece, work in zip(parts.PIECES, record.work, strict=True)
            },
        }
        if record.process_set:
            arguments["process_set"] = record.process_set
        if record.code:
            arguments["error"] = type(error_for(record.code, "")).__name__
        category = "bucket" if steps.is_bucket(record) else kind
        yield self._span(row, record.text, record.begin, record.end, arguments, category)
        started = record.started or record.end
        if started > record.begin:
            late = last != self._records.rank
            name = f"wait for rank {last}" if late else "begin"
            early = sum(record.early) / 1000
            yield self._span(row, name, record.begin, started, {"work_meanwhile_us": early}, "wait")
        if record.end > started:
            yield self._span(row, "transfer + reduce", started, record.end, {}, "transfer")
            yield from self._work(row, record, started)

    def _work(self, row: int, record: Record, at: int) -> Iterator[Event]:
        """The sums of the pieces, one after the other; in truth they alternate."""
        for piece, work, early in zip(parts.PIECES, record.work, record.early, strict=True):
            end = min(record.end, at + work - early)
            if end > at:
                yield self._span(row, piece, at, end, {"sum": True}, "work")
                at = end

    def _pieces(self) -> Iterator[Event]:
        if not self._detail:
            return
        names = {record.name_id: record.text for _, record in self._records.operations}
        for piece in self._records.pieces:
            arguments = {"operation": names.get(piece.name_id, ""), "bytes": piece.bytes}
            name = _name(parts.PIECES, piece.kind)
            yield self._span(ENGINE_ROW, name, piece.begin, piece.end, arguments, "work")

    def _instants(self) -> Iterator[Event]:
        for record in self._records.instants:
            if record.type == parts.START:
                name, level = f"engine starts: rank {record.rank} of {record.bytes}", "info"
            elif record.type == parts.SHUT_DOWN:
                name, level = "engine shuts down", "info"
            else:
                name, level = record.text, _name(LEVELS, record.code)
            yield {
                **self._event("i", ENGINE_ROW, name, record.begin),
                "s": "p",
                "cat": level,
            }

    def _counter(self) -> Iterator[Event]:
        changes: list[tuple[int, int]] = []
        for _, record in self._records.operations:
            changes += [(record.begin, record.bytes), (record.end, -record.bytes)]
        total = 0
        for time, change in sorted(changes):
            total += change
            event = self._event("C", 0, "bytes in flight", time)
            yield {**event, "args": {"bytes": total}}

    def _names(self) -> Iterator[Event]:
        part = self._records.part
        uncertainty = self._records.alignment.uncertainty
        clock = "clock unknown" if uncertainty is None else f"clock +-{uncertainty / 1000:g} us"
        yield self._metadata("process_name", name=f"rank {part.rank} ({part.host}, {part.pid})")
        yield self._metadata("process_sort_index", sort_index=part.rank)
        yield self._metadata("process_labels", labels=clock)
        rows = {STEPS_ROW: "training step", ENGINE_ROW: "engine"}
        for row in range(self._rows):
            rows[FIRST_OPERATION_ROW + row] = f"operations {row + 1}"
        for row, name in rows.items():
            yield self._metadata("thread_name", row, name=name)
            yield self._metadata("thread_sort_index", row, sort_index=row)

    # ---- Events -------------------------------------------------------------------------

    def _event(self, phase: str, row: int, name: str, begin: int) -> Event:
        time = (begin - self._origin) / 1000
        return {"ph": phase, "pid": self._records.rank, "tid": row, "name": name, "ts": time}

    def _span(
        self,
        row: int,
        name: str,
        begin: int,
        end: int,
        arguments: Event,
        category: str = "",
    ) -> Event:
        event = {**self._event("X", row, name, begin), "dur": max(0, end - begin) / 1000}
        if category:
            event["cat"] = category
        if arguments:
            event["args"] = arguments
        return event

    def _metadata(self, what: str, row: int = 0, **arguments: Any) -> Event:
        rank = self._records.rank
        return {"ph": "M", "pid": rank, "tid": row, "name": what, "args": arguments}


def _name(names: Sequence[str], number: int) -> str:
    return names[number] if number < len(names) else str(number)
