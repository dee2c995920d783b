"""Members that say nothing while the others wait for them to join.

Once all have joined a generation their engines look after each other. Until then nobody does: a
worker that hangs between two generations would be waited for as long as joining may take, and
then again. So every worker says now and then that it is alive.
"""

from __future__ import annotations

from collections.abc import Collection


class Silence:
    """When each worker was last heard of. It has no clock of its own.

    Args:
        timeout_s: So long may a worker say nothing; 0: for ever.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._heard: dict[int, float] = {}
        self._announced = 0.0

    def announced(self, now: float) -> None:
        """There is another generation to join. Silence from before does not count."""
        self._announced = now

    def heard(self, number: int, now: float) -> None:
        """A worker has said something."""
        self._heard[number] = now

    def ended(self, number: int) -> None:
        """A worker's process has ended."""
        self._heard.pop(number, None)

    def silent(self, awaited: Collection[int], now: float) -> list[int]:
        """Those of the workers that the others wait for that have been silent for too long."""
        return [number for number in awaited if now >= self._limit(number)]

    def next_check(self, awaited: Collection[int]) -> float:
        """When the next of them will have been silent for too long, if it says no more."""
        return min((self._limit(number) for number in awaited), default=float("inf"))

    def _limit(self, number: int) -> float:
        if self._timeout_s == 0:
            return float("inf")
        return max(self._heard.get(number, 0.0), self._announced) + self._timeout_s
