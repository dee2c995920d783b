"""Subsets of ranks that run operations among themselves."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

from tfring import engine, native

_GLOBAL_ID = 0
_members: dict[int, tuple[int, ...]] = {}


class ProcessSet:
    """A set of ranks. Operations take one as `process_set=`; only its members call them.

    Example:

    >>> evens = tfring.add_process_set(range(0, tfring.size(), 2))
    >>> if evens.included():
    ...     mean = tfring.allreduce(x, process_set=evens)

    Args:
        ranks: Ranks of the job, in any order, each once; None for all ranks there are.

    Raises:
        ValueError: `ranks` is empty, repeats one or has one below 0.
    """

    def __init__(self, ranks: Iterable[int] | None = None) -> None:
        self._ranks = None if ranks is None else tuple(sorted(int(rank) for rank in ranks))
        self._id: int | None = _GLOBAL_ID if ranks is None else None
        if self._ranks is None:
            return
        if not self._ranks or len(set(self._ranks)) < len(self._ranks) or self._ranks[0] < 0:
            raise ValueError(
                f"a process set needs at least one rank and each once, received {self._ranks}"
            )

    @property
    def ranks(self) -> tuple[int, ...]:
        """The members, in increasing order."""
        return tuple(range(engine.size())) if self._ranks is None else self._ranks

    @property
    def process_set_id(self) -> int:
        """The engine's number for it, equal on all ranks; 0 is the set of all.

        Raises:
            ValueError: The set has not been added, or has been removed.
        """
        if self._id is None:
            raise ValueError(f"{self!r} is not known to the engine; use add_process_set first")
        return self._id

    def size(self) -> int:
        """Number of members."""
        return engine.size() if self._ranks is None else len(self._ranks)

    def rank(self) -> int:
        """This process's place among the members, from 0; -1 when it is none."""
        rank = engine.rank()
        return self.ranks.index(rank) if rank in self.ranks else -1

    def included(self) -> bool:
        """Whether this process is a member."""
        return engine.rank() in self.ranks

    def __repr__(self) -> str:
        return "global_process_set" if self._ranks is None else f"ProcessSet({self._ranks})"


global_process_set = ProcessSet()


def members_of(process_set_id: int) -> tuple[int, ...]:
    """The ranks of a set that was added here, or all of them for 0."""
    return global_process_set.ranks if process_set_id == _GLOBAL_ID else _members[process_set_id]


def add_process_set(process_set: ProcessSet | Iterable[int]) -> ProcessSet:
    """Makes a set known to the engine. Every rank of the job calls it, members or not.

    There is no communication; sets of the same ranks are the same set. A set is forgotten
    at `tfring.shutdown()`.

    Args:
        process_set: A `ProcessSet`, or ranks for a new one.

    Returns:
        The set, ready for use.

    Raises:
        ValueError: The set itself is impossible.
        TfringError: A rank is not in the job, or tfring is not initialized.
    """
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set is global_process_set or process_set._ranks is None:
        return process_set
    ranks = (ctypes.c_int * len(process_set.ranks))(*process_set.ranks)
    number = ctypes.c_int64()
    library = native.load()
    native.check(library.tfr_add_process_set(ranks, len(ranks), ctypes.byref(number)))
    process_set._id = number.value
    _members[number.value] = process_set.ranks
    return process_set


def remove_process_set(process_set: ProcessSet) -> None:
    """Forgets a set. Pending operations on it end in good order; new ones are refused.

    Raises:
        ValueError: It is the set of all ranks, or is not known to the engine.
    """
    if process_set._ranks is None:
        raise ValueError("the set of all ranks can't be removed")
    if process_set.process_set_id != _GLOBAL_ID:  # which a set of all ranks shares
        native.check(native.load().tfr_remove_process_set(process_set.process_set_id))
    process_set._id = None
