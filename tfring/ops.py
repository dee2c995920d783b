"""Operations between ranks on TensorFlow tensors.

All of them work eagerly, in `tf.function` (loops, branches and inner functions included) and
in functions that XLA compiles for the CPU. Every rank must call them, with the same name,
data types and options; a difference is an error on every rank, which says who asked for what.
Ranks may reach them in different orders: operations are matched by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfring import collectives, engine, gradients  # noqa: F401 (gradients registers them)
from tfring.collectives import Collective
from tfring.errors import NotInitializedError
from tfring.op_inputs import check_reduction, convert, sort_inputs
from tfring.op_names import operation_name
from tfring.process_sets import ProcessSet, global_process_set
from tfring.reduce_op import ReduceOp
from tfring.scaling import scale
from tfring.sparse import allreduce_slices
from tfring.xla import is_tracing

Average = ReduceOp.AVERAGE
Sum = ReduceOp.SUM
Min = ReduceOp.MIN
Max = ReduceOp.MAX
Product = ReduceOp.PRODUCT

# Autograph would rewrite our code, and all that it calls, to no purpose.
_as_written = tf.autograph.experimental.do_not_convert

# With one rank there is nothing to do. Tests of the op itself turn this off.
_SKIP_WHEN_ALONE = True


@_as_written
def allreduce(
    tensor: Any,
    *,
    op: ReduceOp = Average,
    name: str | None = None,
    process_set: ProcessSet | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    sparse_as_dense: bool = False,
) -> Any:
    """Reduces a tensor over the ranks; every rank gets the same bits.

    Example:

    >>> tfring.allreduce(tf.constant([1.0, 2.0]) * tfring.rank())      # on 2 ranks
    <tf.Tensor: shape=(2,), dtype=float32, numpy=array([0.5, 1. ], dtype=float32)>

    Args:
        tensor: A tensor, or what converts to one (a NumPy array, a tf.Variable, a Keras
            variable), of the same shape on every rank. float16, bfloat16, float32, float64,
            int8, uint8, int32, int64 or bool. Half types are summed in float32. Or a
            `tf.IndexedSlices`: its rows and indices are gathered.
        op: `Average`, `Sum`, `Min`, `Max` or `Product`. The average of integers truncates
            toward zero. Of bool, Sum and Max are "or", Min and Product "and".
        name: What the ranks match the operation by. By default it follows from the place in
            the traced function, or from the kind of operation when eager.
        process_set: The ranks that take part; all of them by default.
        prescale_factor: Every rank's tensor is multiplied by it first.
        postscale_factor: The result is multiplied by it.
        sparse_as_dense: Make a `tf.IndexedSlices` a dense tensor before reducing it.

    Returns:
        A tensor of the same shape and data type, or a `tf.IndexedSlices`. With one rank the
        tensor itself, scaled; nothing is added to the graph.

    Raises:
        NotInitializedError: Before `tfring.init()`.
        TypeError: A data type or `op` that is not supported.
        tf.errors.InvalidArgumentError: The ranks disagree on something.
        tf.errors.AbortedError: A rank is lost.
        NotImplementedError: The gradient of Min, Max or Product is asked for.
    """
    return grouped_allreduce(
        [tensor],
        op=op,
        name=name,
        process_set=process_set,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        sparse_as_dense=sparse_as_dense,
    )[0]


@_as_written
def grouped_allreduce(
    tensors: Sequence[Any],
    *,
    op: ReduceOp = Average,
    name: str | None = None,
    process_set: ProcessSet | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    sparse_as_dense: bool = False,
) -> list[Any]:
    """Reduces a list of tensors, those of one data type in a single operation.

    Example:

    >>> gradients = tape.gradient(loss, variables)
    >>> gradients = tfring.grouped_allreduce(gradients)

    Args:
        tensors: As for `allreduce`, in any mixture. None stays None; it must be None on
            every rank.
        op, name, process_set, prescale_factor, postscale_factor, sparse_as_dense: As for
            `allreduce`. In functions that XLA compiles, `tf.IndexedSlices` are always made
            dense: XLA must know every shape beforehand.

    Returns:
        The reduced tensors in the same order.

    Raises:
        As `allreduce`.
    """
    if not isinstance(op, ReduceOp):
        raise TypeError(f"op: expected Average, Sum, Min, Max or Product, received {op!r}")
    members = _members("allreduce", process_set)
    dense, sparse = sort_inputs(tensors, sparse_as_dense or is_tracing())
    for tensor in dense.values():
        check_reduction(tensor.dtype, op, prescale_factor * postscale_factor)
    results: list[Any] = [None] * len(tensors)
    if _alone(members):
        factor = float(prescale_factor) * float(postscale_factor)
        for index, tensor in dense.items():
            results[index] = scale(tensor, factor)
        for index, item in sparse.items():
            values = scale(item.values, factor)
            results[index] = tf.IndexedSlices(values, item.indices, item.dense_shape)
        return results
    what = Collective(
        name=operation_name("allreduce", name),
        process_set=members.process_set_id,
        reduce_op=op,
        prescale=float(prescale_factor),
        postscale=float(postscale_factor),
    )
    if dense:
        reduced = collectives.allreduce(list(dense.values()), what)
        for index, tensor in zip(dense, reduced, strict=True):
            results[index] = tensor
    if sparse:
        for index, item in zip(sparse, allreduce_slices(list(sparse.values()), what), strict=True):
            results[index] = item
    return results


@_as_written
def allgather(
    tensor: Any, *, name: str | None = None, process_set: ProcessSet | None = None
) -> tf.Tensor:
    """Concatenates the ranks' tensors along the first dimension, in rank order.

    Example:

    >>> tfring.allgather(tf.fill([tfring.rank() + 1, 2], tfring.rank()))    # on 2 ranks
    <tf.Tensor: shape=(3, 2), dtype=int32, numpy=
    array([[0, 0],
           [1, 1],
           [1, 1]], dtype=int32)>

    Args:
        tensor: Of a data type of `allreduce`. The first dimension may differ between ranks
            and be 0; the others must not differ. In functions that XLA compiles the first
            must not either. A scalar counts as one row.
        name, process_set: As for `allreduce`.

    Returns:
        A tensor whose first dimension is the sum of the ranks'.

    Raises:
        As `allreduce`.
    """
    return grouped_allgather([tensor], name=name, process_set=process_set)[0]


@_as_written
def grouped_allgather(
    tensors: Sequence[Any], *, name: str | None = None, process_set: ProcessSet | None = None
) -> list[tf.Tensor]:
    """Gathers a list of tensors, those of one data type in a single operation.

    Args:
        tensors: Each as for `allgather`.
        name, process_set: As for `allreduce`.

    Returns:
        The gathered tensors in the same order.

    Raises:
        As `allreduce`.
    """
    members = _members("allgather", process_set)
    converted = [convert(tensor) for tensor in tensors]
    if _alone(members):
        return [tf.reshape(t, [1]) if t.shape.rank == 0 else t for t in converted]
    if not converted:
        return []
    what = Collective(name=operation_name("allgather", name), process_set=members.process_set_id)
    return collectives.allgather(converted, what)[0]


@_as_written
def broadcast(
    tensor: Any,
    root_rank: int = 0,
    *,
    name: str | None = None,
    process_set: ProcessSet | None = None,
) -> tf.Tensor:
    """Gives every rank the root's tensor.

    Args:
        tensor: Of a data type of `allreduce`, of the same shape on every rank; its values
            matter on the root only.
        root_rank: A rank of the job (and a member of `process_set`).
        name, process_set: As for `allreduce`.

    Returns:
        The root's tensor.

    Raises:
        ValueError: `root_rank` is not a member.
        Otherwise as `allreduce`.
    """
    return grouped_broadcast([tensor], root_rank, name=name, process_set=process_set)[0]


@_as_written
def grouped_broadcast(
    tensors: Sequence[Any],
    root_rank: int = 0,
    *,
    name: str | None = None,
    process_set: ProcessSet | None = None,
) -> list[tf.Tensor]:
    """Broadcasts a list of tensors, those of one data type in a single operation.

    Args:
        tensors: Each as for `broadcast`.
        root_rank, name, process_set: As for `broadcast`.

    Returns:
        The root's tensors in the same order.

    Raises:
        As `broadcast`.
    """
    members = _members("broadcast", process_set)
    if root_rank not in members.ranks:
        raise ValueError(
            f"root_rank: expected one of the ranks {_ranks_text(members)}, received {root_rank}"
        )
    converted = [convert(tensor) for tensor in tensors]
    if _alone(members) or not converted:
        return converted
    what = Collective(
        name=operation_name("broadcast", name),
        process_set=members.process_set_id,
        root_rank=int(root_rank),
    )
    return collectives.broadcast(converted, what)


@_as_written
def barrier(*, name: str | None = None, process_set: ProcessSet | None = None) -> None:
    """Waits until every rank is here.

    In a `tf.function` it runs, but nothing else there waits for it unless placed under
    `tf.control_dependencies`; call it eagerly to separate steps.

    Args:
        name, process_set: As for `allreduce`.

    Raises:
        As `allreduce`.
    """
    members = _members("barrier", process_set)
    if not _alone(members):
        name = operation_name("barrier", name)
        collectives.barrier(Collective(name=name, process_set=members.process_set_id))


def _members(kind: str, process_set: ProcessSet | None) -> ProcessSet:
    """The set to work on, after making sure that this process can."""
    if not engine.is_initialized():
        raise NotInitializedError(f"call tfring.init() before tfring.{kind}()")
    members = global_process_set if process_set is None else process_set
    members.process_set_id  # noqa: B018 (raises for a set that was not added)
    if not members.included():
        raise ValueError(
            f"{kind}: rank {engine.rank()} is not a member of the process set of the ranks "
            f"{_ranks_text(members)}; only members call its operations"
        )
    return members


def _alone(members: ProcessSet) -> bool:
    alone = _SKIP_WHEN_ALONE and members.size() == 1 and not engine.config().elastic
    if alone and not tf.executing_eagerly():
        engine.note_traced_alone()
    return alone


def _ranks_text(members: ProcessSet) -> str:
    return ", ".join(map(str, members.ranks))
