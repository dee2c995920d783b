"""Where a training is in its data, from the number of its completed steps.

The number of workers decides how many samples a step takes. So it is kept since when there have
been how many, and the position after any number of steps is computed from that. A few such
moments are kept, since completed steps may be undone: an update of several micro-steps that is
interrupted is taken again from its first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfring.elastic.epoch_plan import EpochPlan

# As many epochs or changes as one update can extend over.
_KEPT = 64


@dataclass(frozen=True)
class Place:
    """Where a training is.

    Attributes:
        steps: Completed steps.
        epoch, samples: The epoch of the next step, and samples of it that are taken.
        size: Number of workers of the steps that follow.
    """

    steps: int = 0
    epoch: int = 0
    samples: int = 0
    size: int = 1


class SamplerHistory:
    """The places at which the number of workers may have changed.

    Args:
        plan: How epochs are cut into steps.
    """

    def __init__(self, plan: EpochPlan) -> None:
        self._plan = plan
        self._places: Sequence[Place] = (Place(),)

    def at(self, steps: int) -> Place:
        """The place after so many steps; the first that is known if they are before it."""
        known = [place for place in self._places if place.steps <= steps]
        if not known:
            return replace(self._places[0], steps=steps)
        last = known[-1]
        more = steps - last.steps
        epoch, samples = self._plan.advance(last.epoch, last.samples, more, last.size)
        return Place(steps, epoch, samples, last.size)

    def continue_with(self, size: int, steps: int) -> Place:
        """From the step after these on there are so many workers. Later places are forgotten."""
        now = replace(self.at(steps), size=size)
        before = [place for place in self._places if place.steps < steps]
        # One assignment: another thread may be reading.
        self._places = (*before[-_KEPT:], now)
        return now

    def begin_at(self, place: Place) -> None:
        """Forgets all but this."""
        self._places = (place,)
