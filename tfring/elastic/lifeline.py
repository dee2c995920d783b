"""Tells the agent of this host that the process dies, while it is still dying.

What the kernel does with a process that is killed: every thread drops the memory of the process,
then its table of descriptors. Whoever drops the memory last has to free it, which takes tens of
milliseconds with TensorFlow in it. Only after that are sockets and pipes closed, and can others
know. But a thread may have a table of its own. It is hardly ever the last one to drop the memory,
so what is open there alone is closed at once. Here that is the writing end of a pipe.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading

# close_range(2), since Linux 5.9, by number: the C library has it since glibc 2.34.
_CLOSE_RANGE = 436
_UNSHARE = 2
_LAST = 2**32 - 1
_START_S = 10.0

_held: set[int] = set()


def hold(descriptor: int) -> bool:
    """Has a thread of its own hold a descriptor until the process dies.

    Args:
        descriptor: It is closed for all other threads, and for children of this process.

    Returns:
        Whether that was possible; else it stays open as it was, and is closed later in death.
    """
    if descriptor in _held:
        return True
    os.set_inheritable(descriptor, False)
    outcome: list[bool] = []
    tried = threading.Event()

    def live() -> None:
        libc = ctypes.CDLL(None)
        # Signals are for threads that can do something about them.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        outcome.append(_keep_only(libc, descriptor))
        tried.set()
        while outcome[0]:
            libc.pause()

    threading.Thread(target=live, name="tfring-lifeline", daemon=True).start()
    if not tried.wait(_START_S) or not outcome[0]:
        return False
    os.close(descriptor)
    _held.add(descriptor)
    return True


def _keep_only(libc: ctypes.CDLL, descriptor: int) -> bool:
    """Gives this thread a table of descriptors with just one in it."""

    def close(first: int, last: int, flags: int) -> bool:
        numbers = (ctypes.c_uint(number) for number in (first, last, flags))
        return int(libc.syscall(ctypes.c_long(_CLOSE_RANGE), *numbers)) == 0

    if not close(descriptor + 1, _LAST, _UNSHARE):
        return False
    return descriptor == 0 or close(0, descriptor - 1, 0)
