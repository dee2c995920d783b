"""Ctrl-C, SIGTERM and SIGHUP, noted until the job's loop looks."""

from __future__ import annotations

import os
import signal

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """Takes over the signals that end a job.

    Attributes:
        number: The first signal received, or None.
        repeated: Whether another has followed: the user is in a hurry.
        wakeup: A descriptor that becomes readable with each signal.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self.repeated = False
        self.wakeup, write_end = os.pipe()
        os.set_blocking(self.wakeup, False)
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        for number in _SIGNALS:
            # Under nohup, or in a shell's background, a signal is ignored: leave it so.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._note)

    def received(self) -> bool:
        """Whether the job shall end."""
        return self.number is not None

    def clear_wakeup(self) -> None:
        """Empties `wakeup`."""
        try:
            os.read(self.wakeup, 4096)
        except BlockingIOError:
            pass

    def _note(self, number: int, frame: object) -> None:
        self.repeated = self.number is not None
        self.number = self.number or number
