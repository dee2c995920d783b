"""Rows for spans that overlap: in a row each is over before the next begins, or within it."""

from __future__ import annotations

import heapq


class Lanes:
    """Gives spans that come in the order of their beginning the lowest free row."""

    def __init__(self) -> None:
        self._busy: list[tuple[int, int]] = []  # until when, row
        self._free: list[int] = []
        self.count = 0

    def take(self, begin: int, end: int) -> int:
        """The row for a span, from 0."""
        while self._busy and self._busy[0][0] <= begin:
            heapq.heappush(self._free, heapq.heappop(self._busy)[1])
        if not self._free:
            heapq.heappush(self._free, self.count)
            self.count += 1
        row = heapq.heappop(self._free)
        heapq.heappush(self._busy, (end, row))
        return row
