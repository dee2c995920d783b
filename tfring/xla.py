"""Operations inside functions that XLA compiles (`jit_compile=True`).

XLA has no kernel for our ops, but calls a function of the op library through a custom call.
One call carries all tensors of a list, of all data types: it blocks a thread until the
operation is done, so there had better be few.

Calls must run in one order on all ranks, or each rank could wait in another one. XLA keeps
only the order of data, so every call reads a token that the call before has written. The
token is a variable, which XLA threads through loops, branches and inner functions.

This is the one place that uses TensorFlow's private names for XLA.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfring import op_library
from tfring.op_names import enter_function

if TYPE_CHECKING:
    from tfring.collectives import Collective

try:
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops
    from tensorflow.python.framework import ops as framework_ops
    from tensorflow.python.ops import control_flow_util
except ImportError:  # a TensorFlow that moved them: then nothing counts as compiled by XLA
    gen_xla_ops = None

_TARGET = "TfringCollective"

_ALLREDUCE, _BROADCAST, _ALLGATHER, _BARRIER = range(4)

_DTYPES = {
    dtype: number
    for number, dtype in enumerate(
        (
            *(tf.float16, tf.bfloat16, tf.float32, tf.float64),
            *(tf.int8, tf.uint8, tf.int32, tf.int64, tf.bool),
        )
    )
}

_token: tf.Variable | None = None
_lock = threading.Lock()


def is_tracing() -> bool:
    """Whether the function being traced, or one around it, will be compiled by XLA."""
    if gen_xla_ops is None or tf.executing_eagerly():
        return False
    graph = framework_ops.get_default_graph()
    return bool(control_flow_util.GraphOrParentsInXlaContext(graph))


def allreduce(tensors: Sequence[tf.Tensor], what: Collective) -> list[tf.Tensor]:
    """As `collectives.allreduce`, for one custom call."""
    return _call(_ALLREDUCE, tensors, _static_shapes(tensors, what), what)


def broadcast(tensors: Sequence[tf.Tensor], what: Collective) -> list[tf.Tensor]:
    """As `collectives.broadcast`, for one custom call."""
    return _call(_BROADCAST, tensors, _static_shapes(tensors, what), what)


def allgather(tensors: Sequence[tf.Tensor], what: Collective) -> list[tf.Tensor]:
    """As `collectives.allgather`; every rank must bring the same number of rows.

    Anything else is an error on every rank when the function runs.
    """
    from tfring.process_sets import members_of

    members = len(members_of(what.process_set))
    shapes = [
        [shape[0] * members, *shape[1:]] if shape else [members]
        for shape in _static_shapes(tensors, what)
    ]
    return _call(_ALLGATHER, tensors, shapes, what)


def barrier(what: Collective) -> None:
    """As `collectives.barrier`."""
    _call(_BARRIER, [], [], what)


def gathered_rows(tensor: tf.Tensor, members: int) -> tf.Tensor:
    """Rows per rank of an allgather, known beforehand since they are equal."""
    rows = tensor.shape[0] if tensor.shape.rank else 1
    return tf.constant([rows] * members, tf.int64)


def describe(
    kind: int, tensors: Sequence[tf.Tensor], results: Sequence[list[int]], what: Collective
) -> str:
    """The request as custom_ops/tensorflow/xla_request.h has it."""
    fields: list[Any] = [kind, what.reduce_op.value, what.root_rank, what.process_set]
    fields += [repr(what.prescale), repr(what.postscale), len(tensors)]
    for tensor, result in zip(tensors, results, strict=True):
        shape = tensor.shape.as_list()
        fields += [_DTYPES[tensor.dtype], len(shape), result[0] if result else 1, *shape]
    return " ".join(map(str, fields)) + " " + what.name


def _call(
    kind: int, tensors: Sequence[tf.Tensor], results: list[list[int]], what: Collective
) -> list[tf.Tensor]:
    _require_support()
    handle = _token_handle()
    before = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
    # Two tokens, of which the second is of no use, make sure that the call's result is a
    # tuple even without tensors: a single result would reach the target in another form.
    after, _, *outputs = gen_xla_ops.xla_custom_call_v2(
        [before, before, *tensors],
        call_target_name=_TARGET,
        backend_config=describe(kind, tensors, results, what),
        has_side_effect=True,
        result_dtypes=[tf.float32, tf.float32, *(tensor.dtype for tensor in tensors)],
        result_shapes=[tf.TensorShape([])] * 2 + [tf.TensorShape(shape) for shape in results],
    )
    tf.raw_ops.AssignVariableOp(resource=handle, value=after)
    return outputs


def _require_support() -> None:
    if not op_library.xla_ready():
        raise NotImplementedError(
            f"TensorFlow {tf.__version__} gives tfring no way to run inside functions that XLA "
            "compiles. Compile the model, or the tf.function, with jit_compile=False."
        )
    if tf.config.list_logical_devices("GPU"):
        raise NotImplementedError(
            "tfring's operations can't run inside functions that XLA compiles for a GPU. "
            "Compile the model, or the tf.function, with jit_compile=False."
        )


def _static_shapes(tensors: Sequence[tf.Tensor], what: Collective) -> list[list[int]]:
    for index, tensor in enumerate(tensors):
        if not tensor.shape.is_fully_defined():
            raise ValueError(
                f'tensor {index} of "{what.name}" has the shape {tensor.shape}, but in a function '
                "that XLA compiles tfring needs every dimension when the function is traced. "
                "Give the function's inputs full shapes, or use jit_compile=False."
            )
    return [tensor.shape.as_list() for tensor in tensors]


def _token_handle() -> tf.Tensor:
    global _token
    with _lock:
        if _token is None:
            with tf.init_scope(), tf.device("CPU:0"):
                _token = tf.Variable(0.0, trainable=False, name="tfring_token")
        return enter_function(_token.handle)
