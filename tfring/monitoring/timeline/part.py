"""Reads a rank's part of a timeline, which the engine writes (`core/timeline_record.h`)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

MAGIC = b"tfring timeline1"
_HEADER = struct.Struct("<16sIiiiqq64s80s")
_RECORD = struct.Struct("<4BiqqQqIi3q4q4qq88s")
_CHUNK_RECORDS = 4096

# Types of records.
OPERATION, PIECE, SPAN, INSTANT, CLOCK, START, SHUT_DOWN, END = range(1, 9)

KINDS = ("allreduce", "broadcast", "allgather", "barrier")
PIECES = ("copy", "reduce", "send", "receive")


class PartError(Exception):
    """The file is no part of a timeline."""


class Record(NamedTuple):
    """One record; times are nanoseconds of the rank's own clock. What they mean depends on
    the type, see `timeline_record.h`."""

    type: int
    kind: int
    code: int
    rank: int
    begin: int
    end: int
    name_id: int
    process_set: int
    occurrence: int
    tensors: int
    bytes: int
    taken: int
    started: int
    work: tuple[int, ...]
    early: tuple[int, ...]
    link_wait: int
    text: str

    @property
    def key(self) -> tuple[int, int, int]:
        """Equal for the same operation on all ranks, between two rendezvous."""
        return (self.process_set, self.name_id, self.occurrence)


@dataclass(frozen=True)
class Part:
    """A file with what one rank has recorded.

    Attributes:
        path: The file.
        rank: Whose it is.
        pid: Of the process.
        host: Its name.
        clock: Equal for ranks that read the same clock; "" when that is not known.
        begin: When it began, nanoseconds of the rank's clock.
        begin_unix: The same since 1970.
        detail: Whether single pieces of work were recorded.
    """

    path: Path
    rank: int
    pid: int
    host: str
    clock: str
    begin: int
    begin_unix: int
    detail: bool = field(default=False)

    @classmethod
    def open(cls, path: Path) -> Part:
        """Reads the header.

        Raises:
            PartError: It is something else, or incomplete.
            OSError: It can't be read.
        """
        with path.open("rb") as file:
            data = file.read(_HEADER.size)
        if len(data) < _HEADER.size or not data.startswith(MAGIC):
            raise PartError(f"{path} is no part of a timeline that this version of tfring wrote")
        _, record_bytes, rank, pid, detail, begin, begin_unix, host, clock = _HEADER.unpack(data)
        if record_bytes != _RECORD.size:
            raise PartError(
                f"{path}: expected records of {_RECORD.size} bytes, received {record_bytes}"
            )
        names = [_text(host), _text(clock)]
        return cls(path, rank, pid, names[0], names[1], begin, begin_unix, bool(detail))

    def records(self) -> Iterator[Record]:
        """All complete records, in the order in which they were written."""
        with self.path.open("rb") as file:
            file.seek(_HEADER.size)
            while data := file.read(_CHUNK_RECORDS * _RECORD.size):
                whole = len(data) // _RECORD.size * _RECORD.size
                for values in _RECORD.iter_unpack(data[:whole]):
                    times = values[14:18], values[18:22], values[22]
                    yield Record._make((*values[:3], *values[4:14], *times, _text(values[23])))

    def ended(self) -> bool:
        """Whether the rank has ended it; a rank that was killed has not."""
        size = self.path.stat().st_size - _HEADER.size
        if size < _RECORD.size or size % _RECORD.size:
            return False
        with self.path.open("rb") as file:
            file.seek(_HEADER.size + size - _RECORD.size)
            return file.read(1) == bytes([END])


def _text(data: bytes) -> str:
    return data.split(b"\0", 1)[0].decode("utf-8", "replace")
