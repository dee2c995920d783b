"""Batch statistics that are those of all ranks."""

from __future__ import annotations

from typing import Any

import keras

from tfring import engine, ops
from tfring.reduce_op import ReduceOp


class AverageStatistics(keras.callbacks.Callback):
    """Averages over ranks the weights that no gradient changes, such as moving means.

    BatchNormalization keeps a moving mean and variance of the batches it has seen, and each
    rank sees its own. Before each evaluation and at the end of each epoch this callback
    makes them the mean over all ranks: validation, checkpoints and the final model no longer
    depend on the rank. Models without such weights need it not.

    Put it before callbacks that save the model.

    Example:

    >>> model.fit(..., callbacks=[..., tfring.callbacks.AverageStatistics(),
    ...                           tfring.callbacks.ModelCheckpoint("model.keras")])
    """

    def on_test_begin(self, logs: Any = None) -> None:
        """Keras calls it."""
        self._average()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Keras calls it."""
        self._average()

    def _average(self) -> None:
        weights = [
            weight
            for weight in self.model.non_trainable_weights
            if keras.backend.is_float_dtype(weight.dtype)
        ]
        if not weights or engine.size() == 1:
            return
        means = ops.grouped_allreduce(
            [weight.value for weight in weights],
            op=ReduceOp.AVERAGE,
            name="average_statistics",
        )
        for weight, mean in zip(weights, means, strict=True):
            weight.assign(mean)
