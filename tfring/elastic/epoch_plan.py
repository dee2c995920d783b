"""How an epoch is cut into steps, and a step into shares: integer arithmetic only.

A step takes the next samples of the epoch's order. How many depends on those that are left:

    batch_size          batch_size * size as long as `size` samples or more are left then;
                        what is left in the end is one step
    global_batch_size   that many as long as half of it is left then; what is left in the end
                        is one step, or two equal ones if it is more than a global batch

In the second case the cut does not depend on the number of workers. So an epoch has no step in
which a worker has nothing to do, unless fewer samples are left than there are workers: then the
data set is as small as that, workers have joined just then, or the global batch is less than two
samples a worker.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EpochPlan:
    """How an epoch is cut into steps.

    Attributes:
        samples: Of an epoch.
        batch_size: Of a worker; None: `global_batch_size` is given.
        global_batch_size: Of all workers together.
    """

    samples: int
    batch_size: int | None = None
    global_batch_size: int | None = None

    def steps(self, position: int, size: int) -> int:
        """How many steps the rest of an epoch takes.

        Args:
            position: Samples of the epoch that earlier steps have taken.
            size: Number of workers.
        """
        whole, last = self.cut(position, size)
        return whole + len(last)

    def after(self, position: int, steps: int, size: int) -> int:
        """The position after so many more steps of the same epoch; at its end the samples."""
        whole, last = self.cut(position, size)
        more = max(0, steps - whole)
        return position + min(steps, whole) * self._batch(size) + sum(last[:more])

    def step_samples(self, position: int, size: int) -> int:
        """How many samples the step takes that begins there."""
        return self.after(position, 1, size) - position

    def advance(self, epoch: int, position: int, steps: int, size: int) -> tuple[int, int]:
        """Where the training is after so many more steps.

        Returns:
            Epoch and position in it; at the end of an epoch the beginning of the next.
        """
        rest = self.steps(position, size)
        if steps >= rest:
            epochs, steps = divmod(steps - rest, self.steps(0, size))
            epoch, position = epoch + 1 + epochs, 0
        return epoch, self.after(position, steps, size)

    def cut(self, position: int, size: int) -> tuple[int, list[int]]:
        """The rest of an epoch: number of whole batches, and samples of the 0 to 2 steps after."""
        batch = self._batch(size)
        least = size if self.batch_size is not None else (batch + 1) // 2
        left = self.samples - position
        whole = max(0, (left - least) // batch)
        left -= whole * batch
        if self.batch_size is None and left > batch:
            return whole, [(left + 1) // 2, left // 2]
        return whole, [left] if left else []

    def copies(self, position: int, rank: int, size: int) -> list[int]:
        """How many workers have a worker's samples, itself included, since there are too few.

        Returns:
            In whole batches, and in the two steps after them: see `cut`.
        """
        counts = [self._batch(size), *self.cut(position, size)[1]]
        found = [_copies(count, rank, size) for count in counts]
        return [*found, 1, 1][:3]

    def _batch(self, size: int) -> int:
        if self.batch_size is not None:
            return self.batch_size * size
        assert self.global_batch_size is not None
        return self.global_batch_size


def share(begin: int, count: int, rank: int, size: int) -> tuple[int, int]:
    """A worker's part of a step's samples: shares differ by one at most.

    When there are fewer samples than workers, several have the same one; see `EpochPlan.copies`.

    Example:

    >>> [share(20, 7, rank, 3) for rank in range(3)]
    [(20, 23), (23, 25), (25, 27)]

    Returns:
        Begin and end.
    """
    if count < size:
        own = begin + rank % count
        return own, own + 1
    least, more = divmod(count, size)
    first = begin + rank * least + min(rank, more)
    return first, first + least + (rank < more)


def _copies(count: int, rank: int, size: int) -> int:
    least, more = divmod(size, count)
    return 1 if count >= size else least + (rank % count < more)
