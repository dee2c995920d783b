"""What all states of elastic training have in common."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from pathlib import Path

from tfring import engine
from tfring.errors import NotInitializedError


class State(abc.ABC):
    """Base of the states that `tfring.elastic.run` keeps alike on all workers.

    Attributes:
        entries: How often the training function has been entered.
    """

    def __init__(self) -> None:
        self.entries = 0
        self._reset_callbacks: list[Callable[[], None]] = []

    # ---- For users -------------------------------------------------------------------------

    @abc.abstractmethod
    def commit(self) -> None:
        """Keeps the state of now, to go back to."""

    @abc.abstractmethod
    def restore(self) -> None:
        """Goes back to the last commit."""

    def register_reset_callbacks(self, callbacks: Sequence[Callable[[], None]]) -> None:
        """Has functions called after each change of membership, before training goes on."""
        self._reset_callbacks.extend(callbacks)

    def check_host_updates(self) -> None:
        """Raises if the membership of the job has changed, or a peer has been lost.

        Operations do that by themselves. For loops that take long without any.

        Raises:
            MembershipChangedError, PeerLostError: `tfring.elastic.run` knows what to do.
            NotInitializedError: Likewise; this worker has done its first step by itself, to be
                ready for others.
        """
        if engine.rehearsing():
            raise NotInitializedError("the rehearsal of a new worker ends")
        if engine.is_initialized() and engine.config().elastic:
            engine.check_health()

    # ---- For samplers ----------------------------------------------------------------------

    @property
    def counts_steps(self) -> bool:
        """Whether it counts completed steps by itself."""
        return False

    # ---- For elastic.run -------------------------------------------------------------------

    def prepare(self) -> None:  # noqa: B027
        """Makes what `sync` would make: before a newcomer's rehearsal, which comes before."""

    @abc.abstractmethod
    def sync(self) -> None:
        """Gives all members the state of the one that has come furthest; all call it.

        Also what has to be undone after an interruption is undone here.
        """

    def on_reset(self) -> None:
        """Calls the functions that were registered for it."""
        for callback in self._reset_callbacks:
            callback()

    def save_last(self) -> Path | None:
        """The job stops: writes the state of now to disk. The file; None if there is no place."""
        return None

    def finished(self) -> None:  # noqa: B027
        """The training has ended as it should."""
