"""Joining a job, so that Ctrl-C ends the wait for the others."""

from __future__ import annotations

import threading

from tfring import native


class _Joining(threading.Thread):
    """Joins the job; a thread of its own, so that Ctrl-C ends the wait for the others."""

    def __init__(self, options: bytes, previous: _Joining | None) -> None:
        super().__init__(name="tfring-init", daemon=True)
        self._options = options
        self._previous = previous
        self._lock = threading.Lock()
        self._ended = False
        self._given_up = False
        self.error: Exception | None = None

    def run(self) -> None:
        if self._previous is not None:
            self._previous.join()
            self._previous = None
        try:
            native.check(native.load().tfr_init(self._options))
        except Exception as error:
            self.error = error
        with self._lock:
            self._ended = True
            if self._given_up and self.error is None:
                native.load().tfr_shutdown()

    def give_up(self) -> None:
        """Nobody waits any more: leaves the job again as soon as it has been joined."""
        with self._lock:
            self._given_up = True
            if self._ended and self.error is None:
                native.load().tfr_shutdown()


class _Interrupted:
    joining: _Joining | None = None  # one that nobody waits for any more


def join_job(options: bytes) -> None:
    """Joins the job and waits until all its processes have.

    Args:
        options: As `tfr_init` takes them.

    Raises:
        TfringError: It failed.
    """
    joining = _Joining(options, _Interrupted.joining)
    joining.start()
    try:
        joining.join()
    except BaseException:
        joining.give_up()
        _Interrupted.joining = joining
        raise
    _Interrupted.joining = None
    if joining.error is not None:
        raise joining.error
