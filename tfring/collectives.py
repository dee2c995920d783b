"""Operations on tensors as the engine has them, with their gradients.

One call, a list of tensors, any data types: here the list becomes one fused operation per
data type, or a single custom call where XLA compiles the function. What users pass
(variables, `IndexedSlices`, None) is the business of `tfring.ops`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from tfring import engine, op_library, xla
from tfring.grouping import by_dtype
from tfring.op_names import order_handle
from tfring.process_sets import members_of
from tfring.reduce_op import ReduceOp

Tensors = Sequence[tf.Tensor]


@dataclass(frozen=True)
class Collective:
    """What all ranks must agree on, besides data types and shapes.

    Attributes:
        name: The ranks match operations by it.
        process_set: Id of the process set.
        reduce_op: Of an allreduce.
        root_rank: Of a broadcast; a rank of the job.
        prescale: An allreduce gives `postscale * reduce(prescale * x)`.
        postscale: See above.
    """

    name: str
    process_set: int = 0
    reduce_op: ReduceOp = ReduceOp.SUM
    root_rank: int = 0
    prescale: float = 1.0
    postscale: float = 1.0

    def named(self, suffix: str) -> Collective:
        return replace(self, name=self.name + suffix)


def allreduce(tensors: Tensors, what: Collective) -> list[tf.Tensor]:
    """Reduces each tensor over the ranks."""
    if xla.is_tracing():
        return _differentiable(xla.allreduce, allreduce_gradient, tensors, what)
    return _by_dtype(_allreduce_op, tensors, what)[0]


def broadcast(tensors: Tensors, what: Collective) -> list[tf.Tensor]:
    """Gives every rank the root's tensors."""
    if xla.is_tracing():
        return _differentiable(xla.broadcast, broadcast_gradient, tensors, what)
    return _by_dtype(_broadcast_op, tensors, what)[0]


def allgather(tensors: Tensors, what: Collective) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Concatenates the ranks' tensors along the first dimension; scalars become a vector.

    Returns:
        The gathered tensors, and for each an int64 vector: how many rows each rank had.
    """
    if xla.is_tracing():
        _require_fixed_membership("allgather")
        rows = [xla.gathered_rows(tensor, len(members_of(what.process_set))) for tensor in tensors]

        def gradient(what: Collective, grads: Tensors) -> list[tf.Tensor]:
            return allgather_gradient(what, grads, rows, [t.shape for t in tensors])

        return _differentiable(xla.allgather, gradient, tensors, what), rows
    gathered, rows = _by_dtype(_allgather_op, tensors, what, results=2)
    return gathered, rows


def barrier(what: Collective) -> None:
    """Waits until every rank is here."""
    if xla.is_tracing():
        xla.barrier(what)
        return
    op_library.load().tfring_barrier(
        order=order_handle(what.name), tensor_name=what.name, process_set=what.process_set
    )


# ---- Gradients -----------------------------------------------------------------------------
#
# The loss whose gradient is taken is the sum of the ranks' losses. A ticket says which
# execution of a native op the gradient belongs to (custom_ops/tensorflow/tickets.h).


def allreduce_gradient(
    what: Collective, grads: Tensors, ticket: tf.Tensor | None = None
) -> list[tf.Tensor]:
    """Every rank's input reaches every rank's output: reduce the gradients the same way.

    Raises:
        NotImplementedError: The reduction has no gradient here.
    """
    if what.reduce_op not in (ReduceOp.SUM, ReduceOp.AVERAGE):
        raise NotImplementedError(
            f'the gradient of allreduce "{what.name}" with op={what.reduce_op!r} is not defined; '
            "only Sum and Average have one"
        )
    return _reduce_gradients(grads, what.named("/grad"), ticket)


def broadcast_gradient(
    what: Collective, grads: Tensors, ticket: tf.Tensor | None = None
) -> list[tf.Tensor]:
    """The root's input reaches every output, the others' inputs none."""
    total = _reduce_gradients(grads, _sum_of_gradients(what), ticket)
    is_root = tf.equal(_current_rank(), what.root_rank)
    return [tf.where(is_root, grad, tf.zeros_like(grad)) for grad in total]


def allgather_gradient(
    what: Collective,
    grads: Tensors,
    rows: Tensors,
    shapes: Sequence[tf.TensorShape],
    ticket: tf.Tensor | None = None,
) -> list[tf.Tensor]:
    """This rank's rows of the summed gradient."""
    total = _reduce_gradients(grads, _sum_of_gradients(what), ticket)
    place = _current_rank()
    # Among all ranks that is it, however many there are by the time that this runs.
    if what.process_set != 0:
        before = tf.less(tf.constant(members_of(what.process_set)), place)
        place = tf.reduce_sum(tf.cast(before, tf.int32))
    return [
        _own_rows(grad, counts, place, shape)
        for grad, counts, shape in zip(total, rows, shapes, strict=True)
    ]


def _own_rows(
    grad: tf.Tensor, counts: tf.Tensor, place: tf.Tensor, shape: tf.TensorShape
) -> tf.Tensor:
    if shape.rank == 0:
        return grad[place]
    begin = tf.reduce_sum(counts[:place])
    own = grad[begin : begin + counts[place]]
    return tf.ensure_shape(own, shape)


def _sum_of_gradients(what: Collective) -> Collective:
    return Collective(name=what.name + "/grad", process_set=what.process_set)


def _reduce_gradients(
    grads: Tensors, what: Collective, ticket: tf.Tensor | None
) -> list[tf.Tensor]:
    if xla.is_tracing() or ticket is None:
        return allreduce(grads, what)
    return op_library.load().tfring_allreduce_gradient(
        tensors=grads, ticket=ticket, **_allreduce_arguments(what)
    )


def _current_rank() -> tf.Tensor:
    if xla.is_tracing():
        _require_fixed_membership("the gradient of a broadcast or an allgather")
    if tf.executing_eagerly() or xla.is_tracing():
        return tf.constant(engine.rank(), tf.int32)
    return op_library.load().tfring_rank()


def _require_fixed_membership(what: str) -> None:
    """XLA has to know shapes and ranks when it compiles.

    Raises:
        NotImplementedError: The job is elastic: they change, and compiled functions stay.
    """
    if engine.config().elastic:
        raise NotImplementedError(
            f"{what} inside a function that XLA compiles: it would go on with the size and the "
            "rank of now when the members of this elastic job change. Compile the model, or the "
            "tf.function, with jit_compile=False."
        )


# ---- From lists to ops ---------------------------------------------------------------------


def _by_dtype(
    op: Callable[[Tensors, Collective], list[tf.Tensor]],
    tensors: Tensors,
    what: Collective,
    results: int = 1,
) -> list[list[tf.Tensor]]:
    """Runs `op` on the tensors of each data type.

    Returns:
        `results` lists as long as `tensors`; `op` returns them in one, one after another.
    """
    done: list[list[tf.Tensor]] = [[None] * len(tensors) for _ in range(results)]
    for group in by_dtype([tensor.dtype for tensor in tensors]):
        outputs = op(group.of(tensors), what.named(group.suffix))
        size = len(group.indices)
        for part, into in enumerate(done):
            group.put(outputs[part * size : (part + 1) * size], into)
    return done


def _allreduce_op(tensors: Tensors, what: Collective) -> list[tf.Tensor]:
    outputs = op_library.load().tfring_allreduce(tensors=tensors, **_allreduce_arguments(what))
    return outputs.reduced


def _allreduce_arguments(what: Collective) -> dict[str, Any]:
    return {
        "order": order_handle(what.name),
        "tensor_name": what.name,
        "process_set": what.process_set,
        "reduce_op": what.reduce_op.value,
        "prescale": repr(what.prescale),
        "postscale": repr(what.postscale),
    }


def _broadcast_op(tensors: Tensors, what: Collective) -> list[tf.Tensor]:
    outputs = op_library.load().tfring_broadcast(
        tensors=tensors,
        order=order_handle(what.name),
        tensor_name=what.name,
        process_set=what.process_set,
        root_rank=what.root_rank,
    )
    return outputs.received


def _allgather_op(tensors: Tensors, what: Collective) -> list[tf.Tensor]:
    outputs = op_library.load().tfring_allgather(
        tensors=tensors,
        order=order_handle(what.name),
        tensor_name=what.name,
        process_set=what.process_set,
    )
    return [*outputs.gathered, *outputs.rows]


def _differentiable(
    call: Callable[[Tensors, Collective], list[tf.Tensor]],
    gradient: Callable[[Collective, Tensors], list[tf.Tensor]],
    tensors: Tensors,
    what: Collective,
) -> list[tf.Tensor]:
    """An XLA custom call knows no gradient; this gives it one."""

    @tf.custom_gradient
    def run(*inputs: tf.Tensor) -> tuple[list[tf.Tensor], Callable[..., list[tf.Tensor]]]:
        return call(inputs, what), lambda *grads: gradient(what, grads)

    return list(run(*tensors))
