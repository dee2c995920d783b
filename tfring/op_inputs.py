"""What users pass to operations, checked and made into tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfring.reduce_op import ReduceOp

DTYPES = (
    *(tf.float16, tf.bfloat16, tf.float32, tf.float64),
    *(tf.int8, tf.uint8, tf.int32, tf.int64, tf.bool),
)


def sort_inputs(
    tensors: Sequence[Any], densify: bool
) -> tuple[dict[int, tf.Tensor], dict[int, tf.IndexedSlices]]:
    """Splits a list into dense tensors and slices, by position; None is in neither.

    Args:
        tensors: Tensors, what converts to them, `tf.IndexedSlices` and None.
        densify: Turn slices into dense tensors.

    Raises:
        TypeError: An element is something else, or of an unsupported data type.
    """
    dense: dict[int, tf.Tensor] = {}
    sparse: dict[int, tf.IndexedSlices] = {}
    for index, tensor in enumerate(tensors):
        if tensor is None:
            continue
        if isinstance(tensor, tf.IndexedSlices) and not densify:
            _check_dtype(tensor.dtype)
            sparse[index] = tensor
        else:
            dense[index] = convert(tensor)
    return dense, sparse


def convert(value: Any) -> tf.Tensor:
    """A dense tensor of a type that the engine knows; `TypeError` otherwise."""
    if isinstance(value, (tf.SparseTensor, tf.RaggedTensor)):
        raise TypeError(
            f"expected a dense tensor or tf.IndexedSlices, received a {type(value).__name__}"
        )
    tensor = tf.convert_to_tensor(value)
    _check_dtype(tensor.dtype)
    return tensor


def _check_dtype(dtype: tf.DType) -> None:
    if dtype not in DTYPES:
        names = ", ".join(known.name for known in DTYPES)
        raise TypeError(f"expected a tensor of one of the types {names}, received {dtype.name}")


def check_reduction(dtype: tf.DType, op: ReduceOp, factor: float) -> None:
    """Refuses with `TypeError` what is not defined on bool."""
    if dtype == tf.bool and (op is ReduceOp.AVERAGE or factor != 1.0):
        raise TypeError(
            f"bool tensors can't be averaged or scaled, received op={op!r} and a factor of "
            f"{factor}; cast the tensor to a number first"
        )
