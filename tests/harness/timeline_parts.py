"""Parts of timelines as the engine would write them."""

from __future__ import annotations

import struct
from pathlib import Path

HEADER = struct.Struct("<16sIiiiqq64s80s")
RECORD = struct.Struct("<4BiqqQqIi3q4q4qq88s")


def record(
    kind_of_record: int,
    *,
    kind: int = 0,
    code: int = 0,
    rank: int = -1,
    begin: int = 0,
    end: int = 0,
    name_id: int = 0,
    occurrence: int = 0,
    size: int = 0,
    taken: int = 0,
    started: int = 0,
    work: tuple[int, int, int, int] = (0, 0, 0, 0),
    text: str = "",
) -> bytes:
    """One record."""
    return RECORD.pack(
        *(kind_of_record, kind, code, 0, rank, begin, end, name_id, 0, occurrence, 1, size),
        *(taken, started, *work, 0, 0, 0, 0, 0, text.encode()),
    )


def write_part(
    directory: Path,
    rank: int,
    records: list[bytes],
    *,
    clock: str = "machine",
    begin: int = 0,
    begin_unix: int = 0,
    ragged: bytes = b"",
) -> Path:
    """A part's file."""
    directory.mkdir(exist_ok=True)
    path = directory / f"rank-{rank}.part"
    header = HEADER.pack(
        *(b"tfring timeline1", RECORD.size, rank, 100 + rank, 0, begin, begin_unix),
        *(b"host", clock.encode()),
    )
    path.write_bytes(header + b"".join(records) + ragged)
    return path


def check_nesting(events: list[dict]) -> None:
    """In each row a span is over before the next begins, or lies within it."""
    rows: dict[tuple[int, int], list[dict]] = {}
    for event in events:
        if event["ph"] == "X":
            rows.setdefault((event["pid"], event["tid"]), []).append(event)
    slack = 0.002  # microseconds: times are rounded to nanoseconds
    for spans in rows.values():
        open_ends: list[float] = []
        for span in sorted(spans, key=lambda span: (span["ts"], -span["dur"])):
            end = span["ts"] + span["dur"]
            while open_ends and open_ends[-1] <= span["ts"] + slack:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1] + slack, span
            open_ends.append(end)
