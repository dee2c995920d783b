"""One process that behaves like rank 0 of two: for tests of what happens around a reduction.

def test_something(pretend):
    optimizer.apply(gradients, variables)      # applies pretend.reduced(gradients)
    assert pretend.operations == ["average", "average"]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import tensorflow as tf

from tfring import engine, ops
from tfring.config import Config
from tfring.reduce_op import ReduceOp


def of_other_rank(tensor: tf.Tensor) -> tf.Tensor:
    """What rank 1 contributes: not the same as rank 0, but finite when that is."""
    return tensor * 3 if tensor.dtype.is_floating else tensor


def reduce(tensor: Any, op: ReduceOp) -> Any:
    """What both ranks get."""
    if isinstance(tensor, tf.IndexedSlices):
        share = 0.5 if op is ReduceOp.AVERAGE else 1.0
        values = tf.concat([tensor.values, of_other_rank(tensor.values)], 0) * share
        return tf.IndexedSlices(values, tf.concat([tensor.indices] * 2, 0), tensor.dense_shape)
    other = of_other_rank(tensor)
    if op is ReduceOp.AVERAGE:
        return (tensor + other) / 2
    return {ReduceOp.SUM: tf.add, ReduceOp.MIN: tf.minimum, ReduceOp.MAX: tf.maximum}[op](
        tensor, other
    )


@dataclass
class Pretend:
    """What has been asked of the pretended ranks.

    Attributes:
        operations: Reductions, per traced operation and not per run of a graph.
        sizes: How many tensors each had.
        runs: Number of reductions that ran.
    """

    operations: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    runs: int = 0

    def grouped_allreduce(self, tensors: Any, *, op: ReduceOp, **_: Any) -> list[Any]:
        self.operations.append(op.name.lower())
        self.sizes.append(len(tensors))
        with tf.control_dependencies([tf.py_function(self._count, [], [])]):
            return [
                reduce(tensor if isinstance(tensor, tf.IndexedSlices) else tf.identity(tensor), op)
                for tensor in tensors
            ]

    def _count(self) -> None:
        self.runs += 1


def install(monkeypatch: pytest.MonkeyPatch) -> Pretend:
    """Puts two pretended ranks in the engine's place, until the test ends."""
    pretend = Pretend()
    monkeypatch.setattr(engine, "is_initialized", lambda: True)
    monkeypatch.setattr(engine, "config", lambda: Config(rank=0, size=2))
    monkeypatch.setattr(ops, "grouped_allreduce", pretend.grouped_allreduce)
    return pretend
