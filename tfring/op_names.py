"""Names of operations, equal on all ranks, and what keeps operations of one name in order.

The engine matches operations by name: the n-th of a name on one rank meets the n-th on the
others. So two things must hold on every rank alike: which operation has which name, and in
which order the operations of one name run.
"""

from __future__ import annotations

import re
import threading
import weakref
from collections import Counter
from typing import Any

import tensorflow as tf

# "while_1_body_25", "cond_true_22", "map_while_body_82_grad_225": the number at the end
# counts all functions of the process, so it need not agree between ranks.
_CONTROL_FLOW = re.compile(r"_(body|true|false|branch\d+)_\d+")
_LABELS = {"body": "while"}

_DATASET = re.compile(r"^Dataset_")

_labels: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
_counters: weakref.WeakKeyDictionary[Any, Counter[str]] = weakref.WeakKeyDictionary()
_handles: dict[str, tf.Tensor] = {}
_lock = threading.Lock()


def operation_name(kind: str, name: str | None) -> str:
    """The name under which the ranks match an operation.

    A given name is used as it is. Without one, an operation in a graph is named after the
    functions being traced and its number among those of its kind there, for instance
    "train_step/while0/allreduce1". Name scopes have no part in it: Keras numbers layers over
    the whole process, and a rank may have built a model more than the others. An eager
    operation is named after its kind alone, since eager operations run one at a time.
    Tracing a function again gives the same names, so it does not matter which rank has
    traced it how often.

    Args:
        kind: "allreduce", "broadcast", ...
        name: What the user passed.

    Raises:
        ValueError: The name is empty.
        NotImplementedError: The operation is inside a `tf.data` function.
    """
    if name is not None and not name:
        raise ValueError(f"name of {kind}: expected a text or None, received {name!r}")
    if tf.executing_eagerly():
        return name or kind
    graph = tf.compat.v1.get_default_graph()
    path = _path(graph)
    if any(_DATASET.match(label) for label in path):
        raise NotImplementedError(
            f"{kind} inside a tf.data function ({path[-1]}): data pipelines run ahead by as "
            "much as they like, so ranks can't meet there. Move it into the training step."
        )
    return name or "/".join([*path, f"{kind}{_count(graph, kind)}"])


def order_handle(name: str) -> tf.Tensor:
    """A resource that stands for all operations of a name, and is nothing else.

    tf.function (its automatic control dependencies) lets stateful operations that touch
    different resources run at the same time and keeps those that touch the same one in
    program order, through calls of other functions and loops too. One handle per name makes
    that the rule for our operations.
    """
    key = "" if tf.executing_eagerly() else name
    with _lock:
        if key not in _handles:
            _handles[key] = _new_handle(key)
        return enter_function(_handles[key])


def enter_function(handle: tf.Tensor) -> tf.Tensor:
    """A resource of the eager world, as the function being traced has it.

    The function captures it, not the loop or branch that we may be in: the body of a loop's
    gradient can capture what is in the function around it, but no eager tensor.
    """
    if tf.executing_eagerly():
        return handle
    graph = tf.compat.v1.get_default_graph()
    while type(graph).__name__ != "FuncGraph":
        graph = getattr(graph, "outer_graph", None)
        if graph is None:
            raise RuntimeError(
                "tfring's operations work eagerly and inside tf.function, not in a graph of "
                "TensorFlow 1"
            )
    return graph.capture(handle)


def _new_handle(key: str) -> tf.Tensor:
    # Our kernels are the CPU's, and an operation runs where its resources are.
    with tf.init_scope(), tf.device("CPU:0"):
        return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name=f"tfring/order/{key}")


def _path(graph: Any) -> list[str]:
    """Labels of the functions being traced, the outermost first."""
    labels: list[str] = []
    while graph is not None and hasattr(graph, "outer_graph"):
        labels.insert(0, _label(graph))
        graph = graph.outer_graph
    return labels


def _label(graph: Any) -> str:
    if graph not in _labels:
        _labels[graph] = _new_label(graph)
    return _labels[graph]


def _new_label(graph: Any) -> str:
    name = str(graph.name)
    if name.startswith("__"):  # "__backward_step_374"
        return re.sub(r"_\d+$", "", name).strip("_")
    match = _CONTROL_FLOW.search(name)
    if type(graph).__name__ == "FuncGraph" or match is None:
        return name
    kind = _LABELS.get(match[1], match[1]) + ("_grad" if "_grad_" in name else "")
    return f"{kind}{_count(graph.outer_graph, kind)}"


def _count(graph: Any, kind: str) -> int:
    """How many of a kind were counted in a graph before."""
    counter = _counters.setdefault(graph, Counter())
    counter[kind] += 1
    return counter[kind] - 1
