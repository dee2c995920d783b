"""Which samples an epoch's steps are made of: pure functions, the same on every worker."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Indices = np.ndarray


def epoch_order(samples: int, *, seed: int, epoch: int) -> Indices:
    """A permutation that depends on nothing but its arguments.

    Not by NumPy's generators, which may differ from release to release.

    Returns:
        int64, shape (samples,).
    """
    keys = np.arange(samples, dtype=np.uint64)
    for salt in (seed, epoch):
        keys = _mixed(keys ^ _mixed(np.uint64(salt % 2**64)))
    return np.argsort(keys, kind="stable")


def _mixed(values: np.ndarray | np.uint64) -> np.ndarray:
    """SplitMix64's finaliser: every bit of the result depends on every bit of the value."""
    with np.errstate(over="ignore"):
        mixed = np.asarray(values, np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(mixed ^ (mixed >> np.uint64(31)))


@dataclass(frozen=True)
class EpochPlan:
    """How an epoch is cut into steps.

    With a fixed global batch the cut does not depend on the number of workers. In either case
    the last steps of an epoch are made so that every worker has something to do: what is left
    over is shared with the step before.

    Attributes:
        samples: Of an epoch.
        batch_size: Of a worker; None: `global_batch_size` is given.
        global_batch_size: Of all workers together.
    """

    samples: int
    batch_size: int | None = None
    global_batch_size: int | None = None

    def step_samples(self, position: int, size: int) -> int:
        """How many samples the step takes that begins there.

        Args:
            position: Samples of the epoch that earlier steps have taken.
            size: Number of workers.
        """
        left = self.samples - position
        if self.batch_size is not None:
            whole = self.batch_size * size
            # A rest that is too small for all workers goes with the last whole step.
            return left if left < whole + size else whole
        assert self.global_batch_size is not None
        whole = self.global_batch_size
        if left <= whole:
            return left
        if left - whole < (whole + 1) // 2:
            return (left + 1) // 2
        return whole

    def advance(self, epoch: int, position: int, steps: int, size: int) -> tuple[int, int]:
        """Where the training is after so many more steps.

        Returns:
            Epoch and position in it; at the end of an epoch the beginning of the next.
        """
        whole = self.step_samples(0, size)
        for _ in range(steps):
            position += self.step_samples(position, size) if position else whole
            if position >= self.samples:
                epoch, position = epoch + 1, 0
        return epoch, position

    def steps(self, position: int, size: int) -> int:
        """How many steps the rest of an epoch takes."""
        count = 0
        while position < self.samples:
            position += self.step_samples(position, size)
            count += 1
        return count


def share(begin: int, count: int, rank: int, size: int) -> tuple[int, int]:
    """A worker's part of a step's samples: shares differ by one at most.

    When there are fewer samples than workers, the last ones take the first sample, too, so that
    they have something to compute.

    Returns:
        Begin and end.
    """
    least, more = divmod(count, size)
    first = begin + rank * least + min(rank, more)
    own = least + (rank < more)
    return (first, first + own) if own else (begin, begin + 1)
