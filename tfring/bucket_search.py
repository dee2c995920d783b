"""Finds the setting with which steps take least time, by trying it out. No clock, no I/O.

First every candidate is tried in turn, twice around. If another one than the first looks best,
the two of them run in alternation, and it is chosen only if it wins clearly: by 1 % in the
median, and in at least two of three comparisons. Otherwise, and in case of doubt, the first
stays, which is what would be used without searching. So the search never ends slower than it
began, but for what chance does to two of three comparisons.

The ranks of a job decide alike because they decide on the same numbers: sums over all ranks.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Setting = TypeVar("Setting")

ROUNDS = 2
STEPS_A_TRIAL = 3
COMPARISONS = 6
STEPS_A_COMPARISON = 2
LEAST_GAIN = 0.01
# Of each turn the first step is not counted: it may trace, and the ranks announce to each other
# operations that have changed.
_UNCOUNTED = 1


@dataclass(frozen=True)
class Outcome(Generic[Setting]):
    """How a search has ended.

    Attributes:
        chosen: The setting to use.
        start: The setting at the beginning.
        chosen_s, start_s: Seconds a step with each, the mean of the ranks' medians.
        reason: In words, if nothing was gained.
    """

    chosen: Setting
    start: Setting
    chosen_s: float = 0.0
    start_s: float = 0.0
    reason: str = ""

    @property
    def gain(self) -> float:
        """By which part of the time steps have become shorter, 0 to 1."""
        return 1 - self.chosen_s / self.start_s if self.start_s else 0.0


class BucketSearch(Generic[Setting]):
    """A search that is under way.

    Example:

    >>> search = BucketSearch([start, other], agree=lambda values: values)
    >>> while search.outcome is None:
    ...     search.observe(seconds_of_a_step_with(search.setting))
    >>> search.outcome.chosen

    Args:
        candidates: Settings, the one to begin with first.
        agree: Gives every rank the sums of the ranks' numbers. All ranks call it after the
            same number of steps.

    Attributes:
        setting: What the next step must use.
        outcome: None until the search has ended.
    """

    def __init__(
        self, candidates: Sequence[Setting], agree: Callable[[list[float]], list[float]]
    ) -> None:
        self._candidates = list(candidates)
        self._agree = agree
        self.setting = self._candidates[0]
        self.outcome: Outcome[Setting] | None = None
        self._observed = 0.0
        self._search = self._steps()
        self._advance()

    def observe(self, seconds: float) -> None:
        """A step with `setting` took that long."""
        self._observed = seconds
        self._advance()

    def stop(self, reason: str) -> None:
        """Ends the search before its time: the first setting stays."""
        if self.outcome is None:
            self._end(self._candidates[0], reason=reason)

    def _advance(self) -> None:
        next(self._search, None)

    def _end(
        self, chosen: Setting, chosen_s: float = 0.0, start_s: float = 0.0, *, reason: str = ""
    ) -> None:
        start = self._candidates[0]
        self.setting = chosen
        self.outcome = Outcome(chosen, start, chosen_s, start_s, reason)

    def _steps(self) -> Iterator[None]:
        """Yields before each step."""
        start, *others = self._candidates
        if not others:
            self._end(start, reason="there is nothing to choose from")
            return
        best = yield from self._try_all()
        if best == 0:
            self._end(start, reason="no other candidate looked faster")
            return
        yield from self._compare(self._candidates[best])

    def _try_all(self) -> Generator[None, None, int]:
        times: list[list[float]] = [[] for _ in self._candidates]
        for _ in range(ROUNDS):
            for index, candidate in enumerate(self._candidates):
                yield from self._turn(candidate, STEPS_A_TRIAL, times[index])
        medians = self._agree([statistics.median(measured) for measured in times])
        return min(range(len(medians)), key=medians.__getitem__)

    def _compare(self, best: Setting) -> Iterator[None]:
        start = self._candidates[0]
        before: list[float] = []
        after: list[float] = []
        for number in range(COMPARISONS):
            # Whatever a turn leaves for the next one, each side gets it equally often.
            turns = [(start, before), (best, after)]
            for setting, times in turns if number % 2 == 0 else reversed(turns):
                measured: list[float] = []
                yield from self._turn(setting, STEPS_A_COMPARISON, measured)
                times.append(min(measured))
        agreed = self._agree([*before, *after, 1.0])
        ranks = agreed.pop()
        before, after = agreed[:COMPARISONS], agreed[COMPARISONS:]
        won = sum(new < old for old, new in zip(before, after, strict=True))
        old_s, new_s = statistics.median(before) / ranks, statistics.median(after) / ranks
        if new_s < old_s * (1 - LEAST_GAIN) and won * 3 >= COMPARISONS * 2:
            self._end(best, new_s, old_s)
        else:
            reason = f"the best other one, {best}, did not win clearly"
            self._end(start, old_s, old_s, reason=reason)

    def _turn(self, setting: Setting, steps: int, times: list[float]) -> Iterator[None]:
        self.setting = setting
        for step in range(_UNCOUNTED + steps):
            yield
            if step >= _UNCOUNTED:
                times.append(self._observed)
