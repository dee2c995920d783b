"""`ScaleLearningRate`: the rate follows the number of workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from tfring import engine
from tfring.callbacks.learning_rate import LearningRate
from tfring.callbacks.learning_rate_warmup import warmup_rate
from tfring.errors import InvalidArgumentError


class ScaleLearningRate(keras.callbacks.Callback):
    """Changes the learning rate in proportion when workers join or leave an elastic job.

    For samplers with a `batch_size` of each worker, so that the global batch follows their
    number: N times larger batches call for an N times higher rate (Goyal et al., "Accurate,
    Large Minibatch SGD", 2017, section 2.1). With a fixed `global_batch_size` the rate should
    stay.

    Without this callback the rate stays as it is. A `LearningRateSchedule` that is made of
    `tfring.size()` within the training function follows by itself, since that is called again.

    Example:

    >>> callbacks = [tfring.callbacks.ScaleLearningRate(warmup_steps=100), ...]

    Args:
        size: The number of workers that the optimizer's rate is meant for; default: those that
            the job begins with.
        warmup_steps: Steps in which the rate goes from the old value to the new one, after each
            change; 0: at once.
        momentum_correction: Scale the velocity of SGD along; see
            `tfring.callbacks.learning_rate.LearningRate`.

    Raises:
        InvalidArgumentError: A number is out of range; when the number of workers has changed:
            the optimizer has no rate that can be set.
    """

    def __init__(
        self,
        size: int | None = None,
        *,
        warmup_steps: int = 0,
        momentum_correction: bool = True,
    ) -> None:
        super().__init__()
        for name, value, least in (("size", size, 1), ("warmup_steps", warmup_steps, 0)):
            if value is not None and value < least:
                raise InvalidArgumentError(f"{name}: expected {least} or more, received {value}")
        # Plain data, which goes with the state to newcomers and to later calls of `fit`.
        self.size = size
        self.warmup_steps = warmup_steps
        self.began = 0
        self.initial = 0.0
        self.target: float | None = None  # while the rate is on its way
        self._momentum_correction = momentum_correction
        self._undo: tuple[int, Callable[[], None]] | None = None

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Keras calls it."""
        size = engine.size()
        if self.size is None:
            self.size = size
        if size == self.size and self.target is None:
            return
        rate = LearningRate(self.model, momentum_correction=self._momentum_correction)
        steps = self._steps()
        self._keep(steps, rate)
        if size != self.size:
            # One that is on its way is meant for the size before.
            meant = rate.get() if self.target is None else self.target
            self.began, self.initial, self.target = steps, rate.get(), meant * size / self.size
            self.size = size
        assert self.target is not None
        over = steps - self.began
        if over >= self.warmup_steps:
            rate.set(self.target)
            self.target = None
        else:
            rate.set(warmup_rate(over / self.warmup_steps, self.initial, self.target))

    def tfring_undo_step(self) -> None:
        """An elastic state calls it: no other rank may have got this far in the step."""
        if self._undo is not None and self._undo[0] == self._steps():
            self._undo[1]()
        self._undo = None

    def _steps(self) -> int:
        return int(keras.ops.convert_to_numpy(self.model.optimizer.iterations))

    def _keep(self, steps: int, rate: LearningRate) -> None:
        put_back = rate.keep()
        before = self.size, self.began, self.initial, self.target

        def undo() -> None:
            self.size, self.began, self.initial, self.target = before
            put_back()

        if self._undo is None or self._undo[0] != steps:
            self._undo = steps, undo
