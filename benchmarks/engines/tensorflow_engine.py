"""Engines that are called inside a `tf.function`."""

from __future__ import annotations

import abc
from typing import Any

from benchmarks.engines.engine import Array, Engine, Run
from benchmarks.workloads import Workload


class TensorFlowEngine(Engine):
    """One call is one call of a traced function that computes the tensors and reduces them.

    Computed, as gradients are: TensorFlow may give their memory up. They are no arguments, and
    no results: a thousand of those take Python and TensorFlow longer than any engine takes to
    reduce them.
    """

    @abc.abstractmethod
    def reduce(self, tensors: list[Any], name: str) -> list[Any]:
        """The sums over ranks, in a graph. `name` is another one for each workload."""

    def prepare(self, work: Workload, value: float) -> Run:
        import tensorflow as tf

        # It would leave out whatever nobody uses the results of.
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
        inputs = [tf.fill(shape, tf.cast(-value, work.dtype)) for shape in work.shapes]
        name = f"benchmark/{work.name.replace(' ', '_').replace(',', '')}"

        def reduced() -> list[Any]:
            return self.reduce([tf.negative(tensor) for tensor in inputs], name)

        @tf.function
        def reduce_all() -> Any:
            with tf.control_dependencies(reduced()):
                return tf.constant(0)

        self._results = tf.function(reduced)
        return reduce_all.get_concrete_function()

    def results(self) -> list[Array]:
        return [output.numpy() for output in self._results()]


class NoReduction(TensorFlowEngine):
    """No reduction at all: what TensorFlow takes to compute the tensors."""

    title = "no reduction"

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def join(self) -> None:
        pass

    def reduce(self, tensors: list[Any], name: str) -> list[Any]:
        return tensors

    def check(self, run: Run) -> None:
        run()


class TfringOp(TensorFlowEngine):
    """tfring's TensorFlow op; several tensors as one group."""

    title = "tfring op"

    def join(self) -> None:
        import tfring

        tfring.init()
        self.rank, self.size = tfring.rank(), tfring.size()

    def reduce(self, tensors: list[Any], name: str) -> list[Any]:
        import tfring

        if len(tensors) == 1:
            return [tfring.allreduce(tensors[0], op=tfring.Sum, name=name)]
        return tfring.grouped_allreduce(tensors, op=tfring.Sum, name=name)

    def leave(self) -> None:
        import tfring

        tfring.shutdown()


class MultiWorkerMirrored(TensorFlowEngine):
    """TensorFlow's MultiWorkerMirroredStrategy with its ring; it packs several tensors."""

    title = "MultiWorkerMirrored"

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def join(self) -> None:
        import tensorflow as tf

        ring = tf.distribute.experimental.CommunicationImplementation.RING
        self._strategy = tf.distribute.MultiWorkerMirroredStrategy(
            communication_options=tf.distribute.experimental.CommunicationOptions(
                implementation=ring
            )
        )

    def reduce(self, tensors: list[Any], name: str) -> list[Any]:
        import tensorflow as tf

        def replica(values: list[Any]) -> Any:
            # The strategy wants tensors that bear its device; an identity copies nothing.
            placed = [tf.identity(value) for value in values]
            context = tf.distribute.get_replica_context()
            return context.all_reduce(tf.distribute.ReduceOp.SUM, placed)

        return list(self._strategy.run(replica, args=(tensors,)))


class HorovodOp(TensorFlowEngine):
    """Horovod's op, tensor by tensor as its optimizer does it; it fuses what is ready."""

    title = "Horovod"

    def join(self) -> None:
        import horovod.tensorflow as hvd

        hvd.init()
        self.rank, self.size = hvd.rank(), hvd.size()

    def reduce(self, tensors: list[Any], name: str) -> list[Any]:
        import horovod.tensorflow as hvd

        return [
            hvd.allreduce(tensor, op=hvd.Sum, name=f"{name}/{number}")
            for number, tensor in enumerate(tensors)
        ]

    def leave(self) -> None:
        import horovod.tensorflow as hvd

        hvd.shutdown()
