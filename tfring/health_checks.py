"""Steps of an elastic job that end early when the membership has changed.

A step fails at its first reduction; what is computed until then is in vain. So backpropagation is
made to ask on its way whether the engine can still reduce. An operation that fails keeps
TensorFlow from what depends on it and from nothing else: the questions have to be asked before
operations that all the rest comes through.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfring import engine, op_library, xla
from tfring.op_names import order_handle

# In a step. Each makes the function capture one more resource.
_MOST_CHECKS = 32
# How tf.GradientTape names what it adds to a graph.
_BACKWARD = "gradient_tape/"

# What has been done in a graph: how many of its operations have been looked at, and checks added.
_progress: weakref.WeakKeyDictionary[Any, tuple[int, int]] = weakref.WeakKeyDictionary()


def end_step_early() -> None:
    """Has the backpropagation traced so far fail, between layers, if the engine can't go on.

    Does nothing in eager execution, under XLA, and in a job whose members stay.
    """
    if tf.executing_eagerly() or xla.is_tracing() or not engine.config().elastic:
        return
    graph = tf.compat.v1.get_default_graph()
    seen, checks = _progress.get(graph, (0, 0))
    for operation in _spread(_between_layers(graph.get_operations()[seen:])):
        with tf.control_dependencies([tensor.op for tensor in operation.inputs]):
            check = op_library.load().tfring_health(order=order_handle(f"health{checks}"))
        operation._add_control_inputs([check])
        checks += 1
    _progress[graph] = len(graph.get_operations()), checks


def _between_layers(operations: Sequence[Any]) -> list[Any]:
    """Those that gradients go through on their way to further layers."""
    backward: dict[Any, None] = {}
    passing: set[Any] = set()
    for operation in operations:
        before = [tensor.op for tensor in operation.inputs if tensor.op in backward]
        # Custom gradients may have any name.
        if before or operation.name.startswith(_BACKWARD):
            backward[operation] = None
            passing.update(before)
    return [
        operation
        for operation in backward
        if operation in passing and any(tensor.op in backward for tensor in operation.inputs)
    ]


def _spread(operations: Sequence[Any]) -> list[Any]:
    """At most `_MOST_CHECKS` of them, from the first to the last."""
    count = min(len(operations), _MOST_CHECKS)
    return [operations[position * len(operations) // count] for position in range(count)]
