"""What all states of elastic training have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class State:
    """Base of the states that `tfring.elastic.run` keeps alike on all workers."""

    def __init__(self) -> None:
        self._reset_callbacks: list[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: Sequence[Callable[[], None]]) -> None:
        """Has functions called after each change of membership, before training goes on."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Calls them."""
        for callback in self._reset_callbacks:
            callback()

    def check_host_updates(self) -> None:
        """Does nothing: a change of membership interrupts the step in progress by itself."""
