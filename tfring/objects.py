"""Python objects over ranks, pickled. Ranks of a job trust each other."""

from __future__ import annotations

from typing import Any

import cloudpickle
import numpy as np

from tfring import engine
from tfring.arrays import allgather_array, broadcast_arrays
from tfring.errors import InvalidArgumentError


def broadcast_object(obj: Any = None, root_rank: int = 0, *, name: str = "object") -> Any:
    """Gives every rank the root's object.

    Args:
        obj: Anything that can be pickled; looked at on the root only.
        root_rank: Whose object it is.
        name: Calls match by name.

    Returns:
        The root's object: itself on the root, a copy elsewhere.
    """
    if not 0 <= root_rank < engine.size():
        raise InvalidArgumentError(
            f"root_rank: expected 0 to {engine.size() - 1}, received {root_rank}"
        )
    is_root = engine.rank() == root_rank
    data = np.frombuffer(cloudpickle.dumps(obj) if is_root else b"", np.uint8)
    size = np.array([data.size], np.int64)
    (size,) = broadcast_arrays([size], root_rank=root_rank, name=f"broadcast_object/{name}/size")
    if not is_root:
        data = np.empty(int(size[0]), np.uint8)
    (data,) = broadcast_arrays([data], root_rank=root_rank, name=f"broadcast_object/{name}")
    return obj if is_root else cloudpickle.loads(data.tobytes())


def allgather_object(obj: Any, *, name: str = "object") -> list[Any]:
    """Gives every rank the objects of all ranks, in rank order.

    Args:
        obj: Anything that can be pickled.
        name: Calls match by name.
    """
    data = np.frombuffer(cloudpickle.dumps(obj), np.uint8)
    size = np.array([data.size], np.int64)
    sizes = allgather_array(size, name=f"allgather_object/{name}/size")
    everything = allgather_array(data, name=f"allgather_object/{name}").tobytes()
    ends = np.cumsum(sizes)
    return [
        cloudpickle.loads(everything[int(end) - int(size) : int(end)])
        for size, end in zip(sizes, ends, strict=True)
    ]
