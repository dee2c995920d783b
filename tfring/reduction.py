"""Reducing a list of gradients over the ranks: what the optimizer and the tape share."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import tensorflow as tf

from tfring import bucket_size, engine, ops, xla
from tfring.buckets import plan_buckets
from tfring.errors import NotInitializedError
from tfring.keras_hooks import overwritten_by_gradient
from tfring.op_names import operation_name
from tfring.process_sets import ProcessSet
from tfring.reduce_op import ReduceOp


class Compressor(Protocol):
    """How a gradient looks on its way between ranks."""

    def compress(self, tensor: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """Returns what travels, and whatever `decompress` needs to know."""
        ...

    def decompress(self, tensor: tf.Tensor, context: Any) -> tf.Tensor:
        """Makes a reduced tensor again what the optimizer expects."""
        ...


@dataclass(frozen=True)
class GradientReduction:
    """How gradients are reduced.

    Attributes:
        op: `Average`, `Sum`, ...
        compression: Applied to dense gradients on their way; None for none.
        bucket_bytes: Size of a bucket; None for the setting of that name.
        sparse_as_dense: Make `tf.IndexedSlices` dense tensors before reducing them.
        process_set: The ranks that train together; None for all.
        name: First part of the operations' names. By default they are named after the
            traced function, see `op_names.operation_name`.
    """

    op: ReduceOp = ReduceOp.AVERAGE
    compression: Compressor | None = None
    bucket_bytes: int | None = None
    sparse_as_dense: bool = False
    process_set: ProcessSet | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.op, ReduceOp):
            raise TypeError(f"op: expected tfring.Average, Sum, ..., received {self.op!r}")
        if self.bucket_bytes is not None and self.bucket_bytes < 1:
            raise ValueError(f"bucket_bytes: expected at least 1, received {self.bucket_bytes}")
        for method in ("compress", "decompress"):
            if self.compression is not None and not hasattr(self.compression, method):
                raise TypeError(
                    "compression: expected an object with the methods compress and decompress, "
                    f"received {self.compression!r}"
                )

    def alone(self) -> bool:
        """Whether there is nobody to reduce with.

        Raises:
            NotInitializedError: Before `tfring.init()`.
        """
        if not engine.is_initialized():
            raise NotInitializedError(
                "call tfring.init() before gradients are computed: without it this process "
                "would train alone"
            )
        alone = self.process_set.size() == 1 if self.process_set else engine.alone()
        if alone and not tf.executing_eagerly():
            engine.note_traced_alone()
        return alone

    @tf.autograph.experimental.do_not_convert
    def reduce(self, gradients: Sequence[Any]) -> list[Any]:
        """Reduces gradients, in the order of the variables; each bucket is one operation.

        Args:
            gradients: Tensors, `tf.IndexedSlices` and None.

        Returns:
            The reduced gradients; None stays None. With one rank the very same objects.

        Raises:
            As `tfring.allreduce`.
        """
        results = list(gradients)
        if self.alone():
            return results
        dense: dict[int, tf.Tensor] = {}
        sparse: dict[int, tf.IndexedSlices] = {}
        # Backpropagation goes through the variables from the last to the first.
        for index, gradient in reversed(list(enumerate(gradients))):
            if isinstance(gradient, tf.IndexedSlices) and not self._densify():
                sparse[index] = gradient
            elif gradient is not None:
                dense[index] = tf.convert_to_tensor(gradient)
        self._reduce_dense(dense, results)
        if sparse:
            reduced = self.allreduce(list(sparse.values()), "sparse")
            for index, gradient in zip(sparse, reduced, strict=True):
                results[index] = gradient
        return results

    def reduce_for(self, variables: Sequence[Any], gradients: Sequence[Any]) -> list[Any]:
        """As `reduce`, for the gradients of given variables.

        Of variables that a "gradient" overwrites (scales and histories of float8 training)
        every rank gets the largest value, which is also what Keras keeps of several steps.
        """
        overwritten = [overwritten_by_gradient(variable) for variable in variables]
        results = self.reduce(
            [None if over else g for over, g in zip(overwritten, gradients, strict=True)]
        )
        if any(overwritten):
            largest = replace(self, op=ReduceOp.MAX, compression=None, sparse_as_dense=True)
            maxima = largest.reduce(
                [g if over else None for over, g in zip(overwritten, gradients, strict=True)]
            )
            results = [
                maximum if over else result
                for over, result, maximum in zip(overwritten, results, maxima, strict=True)
            ]
        return results

    def allreduce(self, tensors: Sequence[Any], part: str, op: ReduceOp | None = None) -> list[Any]:
        """One operation of this reduction.

        Args:
            tensors: Tensors of one data type.
            part: Distinguishes it from the other operations of the same step.
            op: Instead of the reduction's own.
        """
        op = op or self.op
        name = self.name
        if name is None and tf.executing_eagerly():
            # Names of their own, so that each keeps its shapes from step to step.
            name = "gradients"
        if name is None:
            name = operation_name("gradients", None)
        else:
            name = f"{name}/{op.name.lower()}/{part}"
        return ops.grouped_allreduce(
            tensors,
            op=op,
            name=name,
            process_set=self.process_set,
            sparse_as_dense=self.sparse_as_dense,
        )

    def _densify(self) -> bool:
        return self.sparse_as_dense or xla.is_tracing()

    def _reduce_dense(self, dense: dict[int, tf.Tensor], results: list[Any]) -> None:
        if not dense:
            return
        contexts: dict[int, Any] = {}
        if self.compression is not None:
            for index, tensor in dense.items():
                dense[index], contexts[index] = self.compression.compress(tensor)
        for number, bucket in enumerate(self._buckets(dense)):
            reduced = self.allreduce([dense[index] for index in bucket], f"bucket{number}")
            for index, tensor in zip(bucket, reduced, strict=True):
                if self.compression is not None:
                    tensor = self.compression.decompress(tensor, contexts[index])
                results[index] = tensor

    def _buckets(self, dense: dict[int, tf.Tensor]) -> list[list[int]]:
        indices = list(dense)
        if xla.is_tracing():
            # An operation blocks a thread there, and none starts before the others' inputs.
            return [indices]
        limit = self.bucket_bytes or bucket_size.current(engine.config().bucket_bytes)
        sizes = [_bytes(tensor, limit) for tensor in dense.values()]
        dtypes = [tensor.dtype for tensor in dense.values()]
        if self.bucket_bytes is None:
            bucket_size.note_plan(sizes, dtypes)
        plan = plan_buckets(sizes, dtypes, bucket_bytes=limit)
        return [[indices[position] for position in bucket] for bucket in plan]


def _bytes(tensor: tf.Tensor, unknown: int) -> int:
    elements = tensor.shape.num_elements()
    return unknown if elements is None else elements * tensor.dtype.size


def components(gradients: Sequence[Any]) -> Iterator[tf.Tensor]:
    """The tensors that gradients consist of."""
    for gradient in gradients:
        if isinstance(gradient, tf.IndexedSlices):
            yield gradient.values
            yield gradient.indices
        elif gradient is not None:
            yield gradient


# ---- Never twice ---------------------------------------------------------------------------
#
# Averaging an average again is a waste, and summing a sum again is wrong. So the tape marks
# what it has reduced, and the optimizer looks for the marks.

_graphs_with_marks: weakref.WeakSet[Any] = weakref.WeakSet()


def mark_reduced(gradients: Sequence[Any]) -> None:
    """Marks gradients as reduced already."""
    for gradient in gradients:
        if gradient is not None:
            _marked_part(gradient)._tfring_reduced = True
    if not tf.executing_eagerly():
        _graphs_with_marks.add(tf.compat.v1.get_default_graph())


@tf.autograph.experimental.do_not_convert
def reduced_already(gradients: Sequence[Any]) -> bool:
    """Whether `DistributedGradientTape` has reduced these gradients.

    Raises:
        ValueError: It has reduced some of them, or (as far as a graph shows) something they
            were computed from.
    """
    present = [gradient for gradient in gradients if gradient is not None]
    marked = [gradient for gradient in present if _is_marked(_marked_part(gradient))]
    if present and len(marked) == len(present):
        return True
    if marked or _computed_from_marked(present):
        raise ValueError(
            "these gradients were reduced by DistributedGradientTape, in part or before they "
            "were changed, and DistributedOptimizer would reduce them again. Compute them with "
            "tf.GradientTape, or apply them with an optimizer of Keras that is not wrapped"
        )
    return False


def _marked_part(gradient: Any) -> Any:
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _is_marked(tensor: Any) -> bool:
    return getattr(_origin(tensor), "_tfring_reduced", False)


def _origin(tensor: Any) -> Any:
    """What a tensor of a branch or an inner function is called in the graph around it."""
    while tf.is_symbolic_tensor(tensor) and tensor.op.type == "Placeholder":
        captures = getattr(tensor.graph, "captures", ())
        outside = [outer for outer, inner in captures if inner is tensor]
        if not outside:
            break
        tensor = outside[0]
    return tensor


def _graphs() -> Iterator[Any]:
    """The graph being traced and those around it."""
    graph = tf.compat.v1.get_default_graph()
    while graph is not None:
        yield graph
        graph = getattr(graph, "outer_graph", None)


def _computed_from_marked(gradients: Sequence[Any]) -> bool:
    """Walks the graph backwards. Eager tensors have no history."""
    if tf.executing_eagerly() or not any(graph in _graphs_with_marks for graph in _graphs()):
        return False
    pending = [tensor for tensor in components(gradients) if tf.is_symbolic_tensor(tensor)]
    seen = set()
    while pending:
        tensor = _origin(pending.pop())
        if _is_marked(tensor):
            return True
        if tf.is_symbolic_tensor(tensor) and tensor.op not in seen:
            seen.add(tensor.op)
            pending.extend(tensor.op.inputs)
    return False
