"""A disk that is full, for this process: the system refuses to write on."""

from __future__ import annotations

import contextlib
import resource
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def full_disk(limit: int) -> Iterator[None]:
    """While it is open, no file may grow beyond a number of bytes.

    That goes for every file, those that tests report to as well: open it around no more than the
    code that should fail.
    """
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
