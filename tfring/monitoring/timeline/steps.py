"""What a rank did in a training step, from when the step began and ended and when its buckets
of gradients were submitted and done. Pure arithmetic.

    step     begin .................................................. end
    buckets              submitted   submitted         done
             forward + backward .....|exposed .........|update ......|

Until the last bucket is submitted there is something to compute (and data to wait for); from
then on only communication, until the last bucket is done; then the optimizer applies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tfring.monitoring.timeline.part import Record

STEP = "step"
FORWARD_BACKWARD = "forward + backward"
BEFORE_BUCKETS = "before the first bucket"
OVERLAPPED = "backward, buckets under way"
EXPOSED = "exposed communication"
UPDATE = "update"
NO_BUCKETS = "no gradients reduced"

# As tfring.reduction names them.
_BUCKET = re.compile(r"(^|/)gradients\d*(/|$)|/(bucket\d+|sparse)(/|$)")


class Phase(NamedTuple):
    """A part of a step, with the phase it is a part of, if any; nanoseconds."""

    name: str
    begin: int
    end: int


def is_bucket(record: Record) -> bool:
    """Whether an operation reduces gradients."""
    return record.kind in (0, 2) and bool(_BUCKET.search(record.text))


def phases(begin: int, end: int, buckets: Sequence[Record]) -> Iterator[Phase]:
    """The phases of a step, those that contain others first.

    Args:
        begin, end: Of the step.
        buckets: Submitted in the step, in that order; times as the step's. When several steps
            ran as one, the next of them begins when the last bucket of one is done: its update
            can't be told from the forward pass that follows.
    """
    groups = list(_rounds(buckets))
    if not groups:
        yield Phase(NO_BUCKETS, begin, end)
        return
    for group in groups:
        first, last = group[0].begin, max(bucket.begin for bucket in group)
        done = max(last, min(end, max(bucket.end for bucket in group)))
        first, last = max(begin, first), max(begin, last)
        yield Phase(FORWARD_BACKWARD, begin, last)
        yield Phase(BEFORE_BUCKETS, begin, first)
        if last > first:
            yield Phase(OVERLAPPED, first, last)
        yield Phase(EXPOSED, last, max(last, done))
        begin = max(last, done)
    yield Phase(UPDATE, begin, max(begin, end))


def _rounds(buckets: Sequence[Record]) -> Iterator[list[Record]]:
    """Cuts where a name comes again."""
    group: list[Record] = []
    names: set[int] = set()
    for bucket in buckets:
        if bucket.name_id in names:
            yield group
            group, names = [], set()
        group.append(bucket)
        names.add(bucket.name_id)
    if group:
        yield group
