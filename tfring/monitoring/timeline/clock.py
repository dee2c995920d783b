"""The ranks' clocks as rank 0 would read them.

Each rank asks rank 0 for its time again and again. Rank 0 read its clock somewhere between
question and answer; taking the middle errs by half the round trip at most (D. L. Mills, RFC
5905, section 8). So of the answers that came about the same time the quickest counts, and
between those the clocks' difference is interpolated, since clocks drift. Pure arithmetic.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

_WINDOW_NS = 500_000_000
# An answer that took that many times longer than the quickest of all says too little.
_SLOW = 4


class Answer(NamedTuple):
    """Asked and heard by the own clock, what rank 0's said in between; nanoseconds."""

    asked: int
    theirs: int
    heard: int

    @property
    def round_trip(self) -> int:
        return self.heard - self.asked


@dataclass(frozen=True)
class Alignment:
    """How to turn a rank's times into rank 0's.

    Attributes:
        times: When, by the own clock, the difference to rank 0's is known; increasing.
        offsets: What to add then; nanoseconds.
        uncertainty: By how many nanoseconds at most that is wrong, between the first and the
            last of `times`; None if nobody knows.
        how: In words.
    """

    times: tuple[int, ...]
    offsets: tuple[int, ...]
    uncertainty: int | None
    how: str

    def __call__(self, time: int) -> int:
        """A time of the own clock, by rank 0's."""
        index = bisect.bisect_right(self.times, time)
        if index == 0:
            return time + self.offsets[0]
        if index == len(self.times):
            return time + self.offsets[-1]
        begin, end = self.times[index - 1 : index + 1]
        low, high = self.offsets[index - 1 : index + 1]
        return time + low + (high - low) * (time - begin) // (end - begin)


SAME_CLOCK = Alignment((0,), (0,), 0, "same clock as rank 0")


def align(answers: Sequence[Answer]) -> Alignment:
    """The alignment that rank 0's answers tell.

    Args:
        answers: In the order of time; at least one.
    """
    fastest = min(answer.round_trip for answer in answers)
    best: list[Answer] = []
    for answer in answers:
        if best and answer.asked - best[-1].asked < _WINDOW_NS:
            if answer.round_trip < best[-1].round_trip:
                best[-1] = answer
        else:
            best.append(answer)
    best = [answer for answer in best if answer.round_trip <= _SLOW * fastest]
    middles = [(answer.asked + answer.heard) // 2 for answer in best]
    return Alignment(
        times=tuple(middles),
        offsets=tuple(answer.theirs - middle for answer, middle in zip(best, middles, strict=True)),
        uncertainty=(max(answer.round_trip for answer in best) + 1) // 2,
        how=f"{len(answers)} exchanges with rank 0",
    )


def by_wall_clock(begin: int, begin_unix: int, zero: int, zero_unix: int) -> Alignment:
    """The best that can be said of a rank that never asked.

    Args:
        begin, begin_unix: The same moment by the own clock and by the calendar.
        zero, zero_unix: Likewise on rank 0.
    """
    offset = (begin_unix - begin) - (zero_unix - zero)
    return Alignment((begin,), (offset,), None, "wall clocks only; the rank never asked rank 0")
