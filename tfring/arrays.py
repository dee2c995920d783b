"""Collectives on NumPy arrays, blocking: no TensorFlow, for small things and for tests."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfring import engine, native
from tfring.errors import InvalidArgumentError
from tfring.reduce_op import ReduceOp

Array = np.ndarray[Any, Any]

# Numbered as in c_api.h. bfloat16 is ml_dtypes'.
DTYPES = {
    name: number
    for number, name in enumerate(
        ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool"]
    )
}

# What the engine still refers to after a wait was interrupted.
_abandoned: list[Any] = []

# How long a wait in the library holds up Ctrl-C.
_WAIT_SLICE_S = 0.2


def _dtype_number(array: Array) -> int:
    name = array.dtype.name
    if name not in DTYPES:
        raise InvalidArgumentError(f"dtype: expected one of {', '.join(DTYPES)}, received {name}")
    return DTYPES[name]


def _tensor(source: Array, result: Array | None) -> native.Tensor:
    dims = (ctypes.c_int64 * source.ndim)(*source.shape)
    tensor = native.Tensor(
        input=source.ctypes.data,
        output=None if result is None else result.ctypes.data,
        dims=dims,
        rank=source.ndim,
    )
    tensor.memory = (source, result)  # lives as long as the tensor
    return tensor


def _run(kind: int, name: str, tensors: Sequence[native.Tensor], **fields: Any) -> None:
    engine.config()
    array = (native.Tensor * max(1, len(tensors)))(*tensors)
    request = native.Request(
        struct_size=ctypes.sizeof(native.Request),
        name=name.encode(),
        kind=kind,
        prescale=1.0,
        postscale=1.0,
        tensors=array,
        num_tensors=len(tensors),
        **fields,
    )
    library = native.load()
    operation = ctypes.c_void_p()
    try:
        code = library.tfr_run_for(ctypes.byref(request), _WAIT_SLICE_S, ctypes.byref(operation))
        while code == native.TIMEOUT:  # the operation itself never ends so
            code = library.tfr_wait(operation, _WAIT_SLICE_S)
    except BaseException:
        _abandoned.append((request, tensors))
        raise
    native.check(code)


def allreduce_arrays(
    arrays: Sequence[Array],
    *,
    op: ReduceOp = ReduceOp.AVERAGE,
    name: str,
    process_set: int = 0,
) -> list[Array]:
    """Reduces arrays of one dtype over ranks, as one operation.

    Args:
        arrays: Of equal shapes on every rank.
        op: The reduction.
        name: Operations match by name.
        process_set: Its id; 0: all ranks.

    Returns:
        The results, in new arrays of the same shapes and dtype.
    """
    sources = [np.ascontiguousarray(array).reshape(np.shape(array)) for array in arrays]
    if not sources:
        return []
    numbers = {_dtype_number(source) for source in sources}
    if len(numbers) > 1:
        raise InvalidArgumentError(
            f"arrays: expected one dtype, received {[str(source.dtype) for source in sources]}"
        )
    if engine.rehearsing():
        return sources
    results = [np.empty_like(source) for source in sources]
    tensors = [_tensor(*pair) for pair in zip(sources, results, strict=True)]
    _run(
        *(native.ALLREDUCE, name, tensors),
        dtype=numbers.pop(),
        reduce_op=op.value,
        process_set=process_set,
    )
    return results


def broadcast_arrays(
    arrays: Sequence[Array], *, root_rank: int = 0, name: str, process_set: int = 0
) -> list[Array]:
    """Gives every rank the root's arrays; shapes and dtypes are equal on all ranks.

    Returns:
        New arrays.
    """
    sources = [np.ascontiguousarray(array).reshape(np.shape(array)) for array in arrays]
    if engine.rehearsing():
        return sources
    results = [np.empty_like(source) for source in sources]
    # As bytes, so that arrays of any dtype go as one operation.
    tensors = [
        _tensor(source.reshape(-1).view(np.uint8), result.reshape(-1).view(np.uint8))
        for source, result in zip(sources, results, strict=True)
    ]
    if tensors:
        _run(
            *(native.BROADCAST, name, tensors),
            dtype=DTYPES["uint8"],
            root=root_rank,
            process_set=process_set,
        )
    return results


def allgather_array(array: Array, *, name: str, process_set: int = 0) -> Array:
    """Concatenates the ranks' arrays along the first dimension, in rank order.

    Args:
        array: All ranks' dimensions but the first are equal. A scalar counts as one row.
        name: Operations match by name.
        process_set: Its id; 0: all ranks.
    """
    source = np.ascontiguousarray(array).reshape(np.shape(array))
    if engine.rehearsing():
        return np.concatenate([np.atleast_1d(source)] * engine.size())
    gathered: list[Array] = []

    def allocate(_: Any, index: int, first_dims: Any, members: int) -> int:
        rows = sum(first_dims[member] for member in range(members))
        gathered.append(np.empty((rows, *source.shape[1:]), source.dtype))
        return int(gathered[0].ctypes.data)

    _run(
        *(native.ALLGATHER, name, [_tensor(source, None)]),
        dtype=_dtype_number(source),
        process_set=process_set,
        allocate=native.AllocateFunction(allocate),
    )
    return gathered[0]


def barrier(*, name: str = "barrier", process_set: int = 0) -> None:
    """Returns when every rank has called it."""
    if not engine.rehearsing():
        _run(native.BARRIER, name, [], process_set=process_set)
