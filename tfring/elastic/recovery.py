"""How long changes of membership took, as this worker has seen them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Recovery:
    """One change of membership.

    Attributes:
        generation: The new one.
        reason: Why there was a change, in the driver's words.
        rank, size: This worker's place in it.
        began: When this worker's training was interrupted, on the clock of `time.monotonic`; for
            a newcomer, when it was ready.
        seconds: What it took: "detect", from the news of the new generation until training had
            been interrupted, if the news came first; "rendezvous", until the driver had
            announced the generation; "recreate", until the engine was connected; "sync", until
            all had the same state.
    """

    generation: int
    reason: str = ""
    rank: int = 0
    size: int = 1
    began: float = field(default_factory=time.monotonic)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measure(self, part: str) -> Iterator[None]:
        """Adds the time until the end to a part."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[part] = self.seconds.get(part, 0.0) + time.monotonic() - began

    def text(self) -> str:
        """In one line."""
        parts = ", ".join(f"{part} {1000 * s:.1f} ms" for part, s in self.seconds.items())
        place = f"rank {self.rank} of {self.size}"
        return f"generation {self.generation} ({self.reason}): {place}; {parts}"


_recoveries: list[Recovery] = []
# Hundreds are of no use, and a job may run for months.
_KEPT = 1000


def recoveries() -> list[Recovery]:
    """The changes of membership that this process has been through, in order.

    Example:

    >>> for recovery in tfring.elastic.recoveries():
    ...     print(recovery.text())
    generation 2 (lost w1: killed by signal 9): rank 0 of 2; rendezvous 3.1 ms, ...
    """
    return list(_recoveries)


def note(recovery: Recovery) -> None:
    """Keeps one that is complete."""
    _recoveries.append(recovery)
    del _recoveries[:-_KEPT]
