"""The same number of training steps on every rank, whatever data each has.

A rank that takes a step more than the others waits for gradients that never come. If all
know the number of their batches, the smallest holds for everybody. If not, they agree
before each step whether all have another batch.

`fit` takes the end of an epoch from its train function, which raises StopIteration when
the data has run out. So an epoch is ended the same way.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tfring.data.in_step import in_step
from tfring.data.refeed import Refeed

TrainFunction = Callable[[Any], Any]


class AgreedSteps:
    """How many steps the ranks take, from the batches that each of them has an epoch.

    Args:
        batches: By rank; None for a rank that does not know.
        steps_per_execution: As for `compile`.

    Attributes:
        limit: Steps an epoch; None if that is not known beforehand.
        needed: Whether the ranks would otherwise get out of step.
    """

    def __init__(self, batches: Sequence[int | None], steps_per_execution: int = 1) -> None:
        known = [number for number in batches if number is not None]
        self.limit = min(known) if len(known) == len(batches) else None
        self._steps_per_execution = steps_per_execution
        self._iterator: Any = None
        self._taken = 0
        self._agreed: Iterator[Any] = iter(())
        self._refeed: Refeed | None = None
        self.needed = self.limit is None or self.limit < max(known)

    def warn(self, batches: Sequence[int | None]) -> None:
        """Says that some data is not used, if it is so."""
        if self.needed and self.limit is not None:
            warnings.warn(
                f"the ranks have different numbers of batches ({_counts(batches)}); every epoch "
                f"ends after {self.limit} on all of them. Use tfring.data.shard, which divides "
                "data evenly",
                RuntimeWarning,
                stacklevel=2,
            )

    def run(self, function: TrainFunction, iterator: Any) -> Any:
        """Runs the next steps of the epoch that `iterator` belongs to.

        Args:
            function: Keras's train function.
            iterator: What Keras passes to it.

        Returns:
            What it returns.

        Raises:
            StopIteration: The epoch has ended, on every rank.
        """
        if iterator is not self._iterator:
            self._begin(iterator)
        at_once = self._steps_per_execution
        if self.limit is None:
            batches = list(itertools.islice(self._agreed, at_once))
        else:
            left = self.limit - self._taken
            self._taken += at_once
            if left >= at_once:
                return function(iterator)
            # Fewer than Keras would run at once: all ranks run the same few.
            batches = list(itertools.islice(iterator, max(0, left)))
        if not batches:
            raise StopIteration
        if self._refeed is None:
            self._refeed = Refeed(iterator.element_spec)
        return function(self._refeed.iterator(batches))

    def _begin(self, iterator: Any) -> None:
        self._iterator = iterator
        self._taken = 0
        self._agreed = in_step(iterator, name="fit/next_batch")


def _counts(batches: Sequence[int | None]) -> str:
    shown = [f"{number} on rank {rank}" for rank, number in enumerate(batches[:8])]
    return ", ".join(shown) + (", ..." if len(batches) > len(shown) else "")
