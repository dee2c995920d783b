"""`DistributedGradientTape`: reduced gradients for training loops of one's own."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import tensorflow as tf

from tfring.health_checks import end_step_early
from tfring.process_sets import ProcessSet
from tfring.reduce_op import ReduceOp
from tfring.reducing_optimizer import require_one_replica
from tfring.reduction import Compressor, GradientReduction, mark_reduced
from tfring.weighing import weigh_gradients


class DistributedGradientTape:
    """A `tf.GradientTape` whose `gradient` reduces over all ranks.

    All other attributes are the tape's own; `jacobian` and `batch_jacobian` do not reduce.
    The gradients can go to an optimizer of Keras, or as they are to a `DistributedOptimizer`,
    which does not reduce them a second time. If they are changed before (clipped, say), take
    an optimizer of Keras: a `DistributedOptimizer` refuses them in a graph, and in eager
    execution, where a tensor does not show what it was computed from, reduces them again.

    Example:

    >>> with tf.GradientTape() as tape:
    ...     loss = loss_fn(y, model(x, training=True))
    >>> tape = tfring.DistributedGradientTape(tape)
    >>> gradients = tape.gradient(loss, model.trainable_variables)
    >>> optimizer.apply(gradients, model.trainable_variables)

    or `with tfring.DistributedGradientTape(tf.GradientTape()) as tape:`.

    Args:
        tape: The tape, persistent or not.
        op, compression, bucket_bytes, sparse_as_dense, process_set, name: As for
            `DistributedOptimizer`.

    Raises:
        TypeError: `tape` is no tape, or another argument is of a wrong type.
        ValueError: `bucket_bytes` is less than 1.
    """

    def __init__(
        self,
        tape: tf.GradientTape,
        *,
        op: ReduceOp = ReduceOp.AVERAGE,
        compression: Compressor | None = None,
        bucket_bytes: int | None = None,
        sparse_as_dense: bool = False,
        process_set: ProcessSet | None = None,
        name: str | None = None,
    ) -> None:
        if not isinstance(tape, tf.GradientTape):
            raise TypeError(f"tape: expected a tf.GradientTape, received {tape!r}")
        self._tape = tape
        self._reduction = GradientReduction(
            op=op,
            compression=compression,
            bucket_bytes=bucket_bytes,
            sparse_as_dense=sparse_as_dense,
            process_set=process_set,
            name=name,
        )

    def __enter__(self) -> DistributedGradientTape:
        self._tape.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._tape.__exit__(kind, error, traceback)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tape, name)

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: tf.UnconnectedGradients = tf.UnconnectedGradients.NONE,
    ) -> Any:
        """Gradients of `target`, reduced over the ranks.

        Args:
            target: A tensor, or a nested structure of them.
            sources: A `keras.Variable` or `tf.Variable`, or a nested structure of them; the
                same on every rank.
            output_gradients, unconnected_gradients: As for `tf.GradientTape.gradient`.

        Returns:
            Gradients in the structure of `sources`. None where there is none.

        Raises:
            As `tfring.allreduce`.
        """
        require_one_replica()
        own = self._tape.gradient(target, sources, output_gradients, unconnected_gradients)
        variables = tf.nest.flatten(sources)
        end_step_early()
        weighted = weigh_gradients(variables, tf.nest.flatten(own))
        reduced = self._reduction.reduce_for(variables, weighted)
        mark_reduced(reduced)
        return tf.nest.pack_sequence_as(own, reduced)
