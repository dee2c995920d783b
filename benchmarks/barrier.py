"""A barrier that belongs to no engine, for the processes of one host.

Every engine is timed between two of these, so that none is timed with its own idea of one. Each
process has a counter in a mapped file: it raises its own and waits until all have caught up. A
process that waits gives its core away at every look, since there may be more processes than
cores.
"""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

import numpy as np

# A counter has a cache line of its own.
_LINE_BYTES = 64


class Barrier:
    """One process's side of a barrier.

    Args:
        path: A file of `size * 64` zero bytes that all share: see `create`.
        rank: This process's number.
        size: How many processes meet.
    """

    def __init__(self, path: Path, rank: int, size: int) -> None:
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), size * _LINE_BYTES)
        words = np.frombuffer(self._memory, np.int64)
        self._counters = words[:: _LINE_BYTES // 8]
        self._rank = rank
        self._passed = 0

    @staticmethod
    def create(path: Path, size: int) -> None:
        """Makes the file."""
        path.write_bytes(bytes(size * _LINE_BYTES))

    def wait(self, limit_s: float = 120.0) -> float:
        """Waits for all; returns when this process came, on the clock of `time.perf_counter`.

        Raises:
            TimeoutError: Somebody did not come within `limit_s` seconds.
        """
        self._passed += 1
        arrived = time.perf_counter()
        self._counters[self._rank] = self._passed
        while (self._counters < self._passed).any():
            os.sched_yield()
            if time.perf_counter() - arrived > limit_s:
                missing = np.flatnonzero(self._counters < self._passed).tolist()
                raise TimeoutError(f"barrier: ranks {missing} did not come within {limit_s:g} s")
        return arrived
