"""How far the members of a generation are, and whose state is everybody's.

A *standing* is a rank's place in the training. The most steps decide. Among ranks with equally
many the *earliest* position counts: when some have passed the end of an epoch and others have
not, then to repeat what callbacks do there costs nothing, and to leave it out would leave gaps
in logs and checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Of a newcomer: it has no steps of its own.
NO_STEPS = -1


@dataclass(frozen=True)
class Standing:
    """What a rank tells the others when they meet.

    Attributes:
        steps: Completed steps; `NO_STEPS` for a newcomer.
        position: Where its Python is within equal steps: epochs that have ended.
        committed: Steps of its newest commit on disk; `NO_STEPS` for none.
        structure: A digest of its variables' data types and shapes; empty if not built yet.
    """

    steps: int
    position: int = 0
    committed: int = NO_STEPS
    structure: str = ""

    def is_newcomer(self) -> bool:
        """Whether it takes everything from others."""
        return self.steps == NO_STEPS


def choose_root(standings: Sequence[Standing]) -> int:
    """The rank whose state everybody gets; the lowest if several are equal.

    Example:

    >>> choose_root([Standing(NO_STEPS), Standing(6), Standing(7), Standing(7)])
    2
    """
    if all(standing.is_newcomer() for standing in standings):
        best = max(standing.committed for standing in standings)
        return [standing.committed for standing in standings].index(best)
    steps = max(standing.steps for standing in standings)
    position = min(s.position for s in standings if s.steps == steps)
    return next(
        rank
        for rank, standing in enumerate(standings)
        if (standing.steps, standing.position) == (steps, position)
    )


def behind(standings: Sequence[Standing], root: int) -> list[int]:
    """The ranks that need the root's state.

    Example:

    >>> behind([Standing(NO_STEPS), Standing(6), Standing(7), Standing(7)], 2)
    [0, 1]
    """
    first = standings[root]
    return [
        rank
        for rank, standing in enumerate(standings)
        if rank != root
        and (
            standing.is_newcomer()
            or (standing.steps, standing.position) != (first.steps, first.position)
        )
    ]
