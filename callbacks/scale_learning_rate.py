"""`ScaleLearningRate`: the rate follows the number of workers."""

from __future__ import annotations

from typing import Any

import keras

from tfring import engine
from tfring.callbacks.learning_rate import LearningRate


class ScaleLearningRate(keras.callbacks.Callback):
    """Changes the learning rate in proportion when workers join or leave an elastic job.

    For samplers with a `batch_size` of each worker, so that the global batch follows their
    number. With a fixed `global_batch_size` the rate should stay.

    Example:

    >>> callbacks = [tfring.callbacks.ScaleLearningRate(), ...]

    Args:
        size: The number of workers that the optimizer's rate is meant for; default: those that
            the job begins with.
        momentum_correction: As for `LearningRateWarmup`.

    Raises:
        InvalidArgumentError: When training begins: the optimizer has no rate that can be set.
    """

    def __init__(self, size: int | None = None, *, momentum_correction: bool = True) -> None:
        super().__init__()
        self.size = size  # carried over changes, with the state
        self._momentum_correction = momentum_correction

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Keras calls it."""
        size = engine.size()
        if self.size is None:
            self.size = size
        if size != self.size:
            rate = LearningRate(self.model, momentum_correction=self._momentum_correction)
            rate.set(rate.get() * size / self.size)
            self.size = size
