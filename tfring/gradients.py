"""Tells TensorFlow the gradients of the native ops. Importing is enough."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfring import collectives
from tfring.collectives import Collective
from tfring.reduce_op import ReduceOp

# The last input of each op is its order handle, which has no gradient; the last output of a
# forward op is its ticket.


@tf.RegisterGradient("TfringAllreduce")
def _allreduce(op: Any, *grads: tf.Tensor) -> list[tf.Tensor | None]:
    ticket = op.outputs[-1]
    return [*collectives.allreduce_gradient(_reduction(op), grads[:-1], ticket), None]


@tf.RegisterGradient("TfringAllreduceGradient")
def _allreduce_gradient(op: Any, *grads: tf.Tensor) -> list[tf.Tensor | None]:
    ticket = op.inputs[-2]
    return [*collectives.allreduce_gradient(_reduction(op), grads, ticket), None, None]


@tf.RegisterGradient("TfringBroadcast")
def _broadcast(op: Any, *grads: tf.Tensor) -> list[tf.Tensor | None]:
    what = Collective(
        name=_text(op, "tensor_name"),
        process_set=op.get_attr("process_set"),
        root_rank=op.get_attr("root_rank"),
    )
    return [*collectives.broadcast_gradient(what, grads[:-1], op.outputs[-1]), None]


@tf.RegisterGradient("TfringAllgather")
def _allgather(op: Any, *grads: tf.Tensor) -> list[tf.Tensor | None]:
    inputs = op.inputs[:-1]
    count = len(inputs)
    own = collectives.allgather_gradient(
        Collective(name=_text(op, "tensor_name"), process_set=op.get_attr("process_set")),
        grads[:count],
        rows=op.outputs[count:-1],
        shapes=[tensor.shape for tensor in inputs],
        ticket=op.outputs[-1],
    )
    return [*own, None]


tf.no_gradient("TfringBarrier")
tf.no_gradient("TfringRank")


def _reduction(op: Any) -> Collective:
    return Collective(
        name=_text(op, "tensor_name"),
        process_set=op.get_attr("process_set"),
        reduce_op=ReduceOp(op.get_attr("reduce_op")),
        prescale=float(_text(op, "prescale")),
        postscale=float(_text(op, "postscale")),
    )


def _text(op: Any, attribute: str) -> str:
    value = op.get_attr(attribute)
    return value.decode() if isinstance(value, bytes) else str(value)
