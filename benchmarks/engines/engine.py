"""The face that every measured engine shows to the worker."""

from __future__ import annotations

import abc
import mmap
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workloads import Workload

Array = np.ndarray[Any, Any]
Run = Callable[[], object]


def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's dtype of that name; bfloat16 is the one of ml_dtypes."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def empty(elements: int, dtype: np.dtype[Any]) -> Array:
    """An array in pages of its own: all engines get the same kind of memory."""
    size = max(1, elements * dtype.itemsize)
    memory = mmap.mmap(-1, size)
    if hasattr(mmap, "MADV_HUGEPAGE") and size >= 4 * 2**20:
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype, elements)


class Engine(abc.ABC):
    """A library that reduces tensors over processes."""

    # For tables.
    title: str

    rank = 0
    size = 1

    @abc.abstractmethod
    def join(self) -> None:
        """Meets the other processes; sets `rank` and `size`."""

    @abc.abstractmethod
    def prepare(self, work: Workload, value: float) -> Run:
        """Makes inputs full of `value` and returns what sums them over all ranks, once."""

    @abc.abstractmethod
    def results(self) -> list[Array]:
        """What the last call of the prepared function has left."""

    def reset(self) -> None:  # noqa: B027
        """Makes inputs zero again, where results replace them: sums must not overflow."""

    def leave(self) -> None:  # noqa: B027
        """Says goodbye."""

    def check(self, run: Run) -> None:
        """One call, with rank + 1 as input; AssertionError if the sum is wrong."""
        run()
        expected = self.size * (self.size + 1) / 2
        for result in self.results():
            flat = np.asarray(result, np.float32).reshape(-1)
            assert (flat == expected).all(), f"{self.title}: expected {expected}, got {flat[:8]}"
        self.reset()


class ArrayEngine(Engine):
    """An engine that reduces arrays in place."""

    arrays: list[Array]

    def allocate(self, work: Workload, value: float) -> None:
        """One array a tensor, in `arrays`."""
        self.arrays = []
        dtype = numpy_dtype(work.dtype)
        for shape in work.shapes:
            array = empty(int(np.prod(shape)), dtype).reshape(shape)
            array.fill(value)
            self.arrays.append(array)

    def results(self) -> list[Array]:
        return self.arrays

    def reset(self) -> None:
        for array in self.arrays:
            array.fill(0)
