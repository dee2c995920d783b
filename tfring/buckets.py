"""Which gradients travel together.

Backpropagation produces gradients one after another, the last layer's first. Gradients are
packed into buckets in that order, and each bucket is reduced as soon as its last gradient
is there, while backpropagation goes on with the layers before. Many small operations would
pay the latency of each; one large operation could not begin before the end.

Pure arithmetic: no TensorFlow here.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

# The first bucket of a data type is small, so that the first transfer starts early.
FIRST_BUCKET_BYTES = 1024 * 1024


def plan_buckets(
    sizes: Sequence[int],
    dtypes: Sequence[Hashable],
    *,
    bucket_bytes: int,
    first_bucket_bytes: int = FIRST_BUCKET_BYTES,
) -> list[list[int]]:
    """Packs tensors into buckets of one data type each.

    A bucket takes tensors until it has reached its limit; so it may exceed the limit by a
    part of its last tensor, and a small bias does not end up alone next to a large kernel.

    Example:

    >>> plan_buckets([4, 4, 4, 4], ["f4"] * 4, bucket_bytes=8, first_bucket_bytes=4)
    [[0], [1, 2], [3]]

    Args:
        sizes: Bytes of each tensor, in the order in which they become available.
        dtypes: Data type of each tensor; anything that can be compared.
        bucket_bytes: Bytes at which a bucket is full.
        first_bucket_bytes: The same for the first bucket of each data type, if that is less.

    Returns:
        Positions of the tensors of each bucket; the buckets in the order in which they
        are complete. Every position occurs once.

    Raises:
        ValueError: `bucket_bytes` is less than 1, or the lists differ in length.
    """
    if bucket_bytes < 1:
        raise ValueError(f"bucket_bytes: expected at least 1, received {bucket_bytes}")
    limits: dict[Hashable, int] = {}
    open_buckets: dict[Hashable, list[int]] = {}
    filled: dict[Hashable, int] = {}
    buckets: list[list[int]] = []
    for position, (size, dtype) in enumerate(zip(sizes, dtypes, strict=True)):
        open_buckets.setdefault(dtype, []).append(position)
        filled[dtype] = filled.get(dtype, 0) + size
        if filled[dtype] >= limits.get(dtype, min(first_bucket_bytes, bucket_bytes)):
            buckets.append(open_buckets.pop(dtype))
            del filled[dtype]
            limits[dtype] = bucket_bytes
    return sorted([*buckets, *open_buckets.values()], key=lambda bucket: bucket[-1])
