"""Writes commits in the background."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from tfring.elastic.commit_files import Commit, write_commit

# Makes the commit: copies what is still in TensorFlow's hands.
Make = Callable[[], Commit]


class CommitWriter:
    """Writes the newest of the commits that it is given; training does not wait for it.

    When commits come faster than the disk takes them those in between are left out. A commit
    that can't be written is a warning, once for each cause: training is worth more than a
    commit.

    Args:
        directory: Where to.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._changed = threading.Condition()
        self._next: Make | None = None
        self._busy = False
        self._closed = False
        self._warned: set[str] = set()
        self._thread: threading.Thread | None = None
        self.written: Path | None = None

    def submit(self, make: Make) -> None:
        """Has a commit written, unless a newer one comes first."""
        with self._changed:
            self._next = make
            if self._thread is None:
                self._closed = False
                self._thread = threading.Thread(
                    target=self._run, name="tfring-commits", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Waits until all has been written.

        Returns:
            Whether it has.
        """
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while self._next is not None or self._busy:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def close(self, timeout_s: float = 60.0) -> None:
        """Writes what is left and ends the thread."""
        self.flush(timeout_s)
        with self._changed:
            thread, self._thread = self._thread, None
            self._closed = True
            self._changed.notify_all()
        if thread is not None:
            thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._next is None and not self._closed:
                    self._changed.wait(60.0)
                if self._next is None:
                    return
                make, self._next, self._busy = self._next, None, True
            try:
                self.written = write_commit(self._directory, make())
            except Exception as error:
                self._warn(error)
            finally:
                del make
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()

    def _warn(self, error: Exception) -> None:
        cause = f"{type(error).__name__}: {error}"
        if cause not in self._warned:
            self._warned.add(cause)
            warnings.warn(
                f"no commit could be written to {self._directory} ({cause}); training goes on, "
                "but could not be resumed from now",
                RuntimeWarning,
                stacklevel=2,
            )
