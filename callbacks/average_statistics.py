"""`AverageStatistics`: moving averages that are those of all ranks."""

from __future__ import annotations

from typing import Any

import keras

from tfring.moving_averages import average_moving_averages


class AverageStatistics(keras.callbacks.Callback):
    """Averages over ranks the weights that no gradient changes, such as moving means.

    BatchNormalization keeps a moving mean and variance of the batches it has seen, and each
    rank sees its own. Before each evaluation and at the end of each epoch this callback
    makes them the mean over all ranks: validation, checkpoints and the final model no longer
    depend on the rank. `AverageMetrics` does so too; this one is for training without it.

    Put it before callbacks that save the model.

    Example:

    >>> model.fit(..., callbacks=[..., tfring.callbacks.AverageStatistics(),
    ...                           tfring.callbacks.ModelCheckpoint("model.keras")])
    """

    def on_test_begin(self, logs: Any = None) -> None:
        """Keras calls it."""
        average_moving_averages(self.model)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Keras calls it."""
        average_moving_averages(self.model)
