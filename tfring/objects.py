"""Python objects over ranks, pickled. Ranks of a job trust each other.

Every object's size goes ahead of it. A rank that cannot pickle its object sends the reason
in its place, with a negative size, so that all ranks raise and none waits.
"""

from __future__ import annotations

from typing import Any, NoReturn

import cloudpickle
import numpy as np

from tfring import engine
from tfring.arrays import allgather_array, broadcast_arrays
from tfring.errors import InvalidArgumentError, TfringError


def broadcast_object(obj: Any = None, root_rank: int = 0, *, name: str = "object") -> Any:
    """Gives every rank the root's object.

    Args:
        obj: Anything that can be pickled; looked at on the root only.
        root_rank: Whose object it is.
        name: Calls match by name.

    Returns:
        The root's object: itself on the root, a copy elsewhere.

    Raises:
        TfringError: The root's object cannot be pickled; on every rank.
    """
    if not 0 <= root_rank < engine.size():
        raise InvalidArgumentError(
            f"root_rank: expected 0 to {engine.size() - 1}, received {root_rank}"
        )
    is_root = engine.rank() == root_rank or engine.rehearsing()
    size, data = _pickled(obj) if is_root else (0, b"")
    (sizes,) = broadcast_arrays(
        [np.array([size], np.int64)], root_rank=root_rank, name=f"broadcast_object/{name}/size"
    )
    size = int(sizes[0])
    mine = np.frombuffer(data, np.uint8) if is_root else np.empty(abs(size), np.uint8)
    (received,) = broadcast_arrays([mine], root_rank=root_rank, name=f"broadcast_object/{name}")
    if size < 0:
        _raise(root_rank, received.tobytes())
    return obj if is_root else cloudpickle.loads(received)


def allgather_object(obj: Any, *, name: str = "object") -> list[Any]:
    """Gives every rank the objects of all ranks, in rank order.

    Args:
        obj: Anything that can be pickled.
        name: Calls match by name.

    Raises:
        TfringError: Some rank's object cannot be pickled; on every rank.
    """
    size, data = _pickled(obj)
    sizes = allgather_array(np.array([size], np.int64), name=f"allgather_object/{name}/size")
    everything = allgather_array(np.frombuffer(data, np.uint8), name=f"allgather_object/{name}")
    pieces = np.split(everything, np.cumsum(np.abs(sizes))[:-1])
    for rank, piece in enumerate(pieces):
        if sizes[rank] < 0:
            _raise(rank, piece.tobytes())
    return [cloudpickle.loads(piece) for piece in pieces]


def _pickled(obj: Any) -> tuple[int, bytes]:
    """The size, negative for a reason instead of an object, and the bytes."""
    try:
        data = cloudpickle.dumps(obj)
    except Exception as error:
        reason = f"{type(obj).__name__}: {error}".encode()
        return -len(reason), reason
    return len(data), data


def _raise(rank: int, reason: bytes) -> NoReturn:
    raise TfringError(f"rank {rank} cannot pickle its object: {reason.decode(errors='replace')}")
