"""The limit in shared memory: every process copies the same bytes at the same time."""

from __future__ import annotations

import ctypes

from benchmarks.engines.engine import ArrayEngine, Run, empty, numpy_dtype
from benchmarks.workloads import Workload


class Memcpy(ArrayEngine):
    """Copies all tensors, one after the other, and talks to nobody."""

    title = "memcpy"

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def join(self) -> None:
        pass

    def prepare(self, work: Workload, value: float) -> Run:
        self.allocate(work, value)
        dtype = numpy_dtype(work.dtype)
        self._copies = [empty(array.size, dtype) for array in self.arrays]
        for copy in self._copies:
            copy.fill(0)
        memory = (self.arrays, self._copies)  # to live as long as the function
        pairs = [
            (copy.ctypes.data, array.ctypes.data, array.nbytes)
            for copy, array in zip(self._copies, self.arrays, strict=True)
        ]
        move = ctypes.memmove

        def run(memory: object = memory) -> None:
            for target, source, count in pairs:
                move(target, source, count)

        return run

    def check(self, run: Run) -> None:
        run()
        for copy, array in zip(self._copies, self.arrays, strict=True):
            assert copy[-1] == array.reshape(-1)[-1]
