"""Which elements of a data set belong to which rank: integer arithmetic only.

Element i belongs to rank i mod size. When the number of elements is no multiple of the
number of ranks, the last round is incomplete, and the `remainder` decides what becomes of
it:

    "pad"   ranks without an element in the last round get one of the elements of that
            round, so that all have equally many and none is lost; up to size - 1 elements
            occur on two ranks. (If the round has a single element, on all that lack one.)
    "drop"  nobody gets the last round: all have equally many, up to size - 1 are lost.
    "keep"  the last round stays incomplete: every element on exactly one rank, and some
            ranks have one element less than others.
"""

from __future__ import annotations

import numpy as np

REMAINDERS = ("pad", "drop", "keep")


def check_partition(rank: int, size: int, remainder: str) -> None:
    """Refuses impossible arguments.

    Raises:
        ValueError: `remainder` is unknown, or `rank` is not one of `size` ranks.
    """
    if remainder not in REMAINDERS:
        raise ValueError(f"remainder: expected one of {REMAINDERS}, received {remainder!r}")
    if not 0 <= rank < size:
        raise ValueError(f"rank: expected 0 to size - 1, received rank {rank} of size {size}")


def shard_length(total: int, rank: int, size: int, remainder: str = "pad") -> int:
    """How many of `total` elements a rank gets.

    Example:

    >>> [shard_length(10, rank, 4, "keep") for rank in range(4)]
    [3, 3, 2, 2]
    """
    check_partition(rank, size, remainder)
    full, rest = divmod(total, size)
    if remainder == "drop" or rest == 0:
        return full
    return full + 1 if remainder == "pad" or rank < rest else full


def padding_index(total: int, rank: int, size: int) -> int | None:
    """The element that fills a rank's place in the last round; None if it has its own.

    It is one of the last round, which belong to lower ranks, so no rank sees one twice.

    Example:

    >>> [padding_index(10, rank, 4) for rank in range(4)]
    [None, None, 8, 9]
    """
    rest = total % size
    if rest == 0 or rank < rest:
        return None
    return total - rest + (rank - rest) % rest


def shard_indices(total: int, rank: int, size: int, remainder: str = "pad") -> np.ndarray:
    """The elements of a rank, in increasing order.

    Example:

    >>> shard_indices(10, 3, 4, "pad")
    array([3, 7, 9])

    Args:
        total: Number of elements.
        rank, size: This rank, and how many there are.
        remainder: "pad", "drop" or "keep", see above.

    Returns:
        Indices from 0 to `total` - 1, int64.

    Raises:
        ValueError: As `check_partition`.
    """
    check_partition(rank, size, remainder)
    stop = total - total % size if remainder == "drop" else total
    indices = np.arange(rank, stop, size, dtype=np.int64)
    extra = padding_index(total, rank, size) if remainder == "pad" else None
    return indices if extra is None else np.append(indices, extra)
