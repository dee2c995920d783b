"""Reducing `tf.IndexedSlices`: gradients of embeddings, which touch few rows of many."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tfring import collectives
from tfring.collectives import Collective
from tfring.reduce_op import ReduceOp
from tfring.scaling import scale


def allreduce_slices(
    slices: Sequence[tf.IndexedSlices], what: Collective
) -> list[tf.IndexedSlices]:
    """Sums or averages without ever making a dense tensor.

    The sum of slices is all their rows together: values and indices are gathered, and an
    index that occurs several times is added up by whoever applies the gradient, as
    TensorFlow's optimizers do anyhow. All values of one data type travel in one operation,
    and so do all indices.

    Args:
        slices: One `tf.IndexedSlices` per variable. Ranks may have different numbers of
            rows; the remaining dimensions must be the same.
        what: Sum or Average.

    Raises:
        ValueError: The reduction is another one.
    """
    if what.reduce_op not in (ReduceOp.SUM, ReduceOp.AVERAGE):
        raise ValueError(
            f'allreduce "{what.name}": tf.IndexedSlices can be reduced with Sum or Average, '
            f"received op={what.reduce_op!r}; pass sparse_as_dense=True for the others"
        )
    gather = Collective(name=what.name, process_set=what.process_set)
    # Scaled before they travel, so that a prescale can prevent an overflow in half types.
    factor = what.prescale * what.postscale
    values, rows = collectives.allgather(
        [scale(item.values, factor) for item in slices], gather.named("/values")
    )
    indices, _ = collectives.allgather([item.indices for item in slices], gather.named("/indices"))
    if what.reduce_op is ReduceOp.AVERAGE:
        values = [_divide(value, tf.size(row)) for value, row in zip(values, rows, strict=True)]
    return [
        tf.IndexedSlices(value, index, item.dense_shape)
        for value, index, item in zip(values, indices, slices, strict=True)
    ]


def _divide(values: tf.Tensor, ranks: tf.Tensor) -> tf.Tensor:
    divisor = tf.cast(ranks, values.dtype)
    return values / divisor if values.dtype.is_floating else tf.truncatediv(values, divisor)
