"""The size of a bucket that is in use, and what buckets it would make.

What the user has passed for `bucket_bytes` always wins. Without it the size is the one that
autotuning has found, if it has run; else the setting.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

from tfring.buckets import plan_buckets

_Gradients = tuple[tuple[int, ...], tuple[Hashable, ...]]


class _InUse:
    tuned: int | None = None
    planned: ClassVar[set[_Gradients]] = set()


def current(setting: int) -> int:
    """Bytes of a bucket for a reduction that was not told any."""
    return setting if _InUse.tuned is None else _InUse.tuned


def use(size: int | None) -> None:
    """From now on functions are traced with this size; None: with that of the settings."""
    _InUse.tuned = size


def note_plan(sizes: Sequence[int], dtypes: Sequence[Hashable]) -> None:
    """Gradients like these are put into buckets of the size that `current` gives."""
    _InUse.planned.add((tuple(sizes), tuple(dtypes)))


def distinct(sizes: Sequence[int]) -> list[int]:
    """Those of the bucket sizes that make a difference for gradients seen so far.

    Args:
        sizes: Of buckets. Of several that make the same buckets the first is kept.
    """
    kept: dict[tuple[Hashable, ...], int] = {}
    for size in sizes:
        plans = tuple(
            tuple(map(tuple, plan_buckets(gradients, dtypes, bucket_bytes=size)))
            for gradients, dtypes in sorted(_InUse.planned, key=repr)
        )
        kept.setdefault(plans, size)
    return list(kept.values()) if _InUse.planned else list(sizes[:1])
