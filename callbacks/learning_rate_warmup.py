"""`LearningRateWarmup`: from the rate of one process to that of all."""

from __future__ import annotations

from typing import Any

import keras

from tfring import engine
from tfring.callbacks.learning_rate import LearningRate, epoch_reached, steps_of_epoch
from tfring.errors import InvalidArgumentError


class LearningRateWarmup(keras.callbacks.Callback):
    """Raises the learning rate gradually at the beginning of the training.

    N ranks take N times larger batches, which calls for an N times higher rate, which early
    steps do not bear. So the rate rises in equal parts, batch by batch, from the one that is
    right for one process to N times that. (Goyal et al., "Accurate, Large Minibatch SGD:
    Training ImageNet in 1 Hour", 2017, section 2.2.)

    After the warm-up the rate is left alone, so it goes together with `LearningRateSchedule`
    or Keras's ReduceLROnPlateau. A training that is resumed by `initial_epoch` goes on where
    it was.

    Example:

    >>> optimizer = keras.optimizers.SGD(0.1 * tfring.size(), momentum=0.9)
    >>> ...
    >>> model.fit(..., callbacks=[tfring.callbacks.LearningRateWarmup(warmup_epochs=5), ...])

    Args:
        initial: The rate to begin with, the one for a single process. By default `target`
            divided by the number of ranks.
        target: The rate to end with. By default `initial` times the number of ranks or, if
            that isn't given either, the optimizer's rate when the training begins.
        warmup_epochs: How long it takes, in epochs; fractions allowed.
        momentum_correction: Scale the velocity of SGD along; see
            `tfring.callbacks.learning_rate.LearningRate`.
        steps_per_epoch: Batches an epoch, if the length of the data is unknown.
        verbose: 1: rank 0 says when it has ended.

    Raises:
        InvalidArgumentError: A number is out of range; when training begins: the rate can't
            be set, or the number of batches is unknown.
    """

    def __init__(
        self,
        initial: float | None = None,
        target: float | None = None,
        *,
        warmup_epochs: float = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__()
        for name, value in (("initial", initial), ("target", target)):
            if value is not None and value <= 0:
                raise InvalidArgumentError(f"{name}: expected a rate above 0, received {value}")
        if warmup_epochs < 0:
            raise InvalidArgumentError(f"warmup_epochs: expected 0 or more, got {warmup_epochs}")
        self.initial = initial
        self.target = target
        self.warmup_epochs = warmup_epochs
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.verbose = verbose

    def on_train_begin(self, logs: Any = None) -> None:
        """Keras calls it."""
        self._rate = LearningRate(self.model, momentum_correction=self.momentum_correction)
        given = self.initial * engine.size() if self.initial else self._rate.get()
        self._target = given if self.target is None else self.target
        self._initial = self._target / engine.size() if self.initial is None else self.initial
        self._done = False
        self._last: float | None = None  # the rate that was set last

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Keras calls it."""
        self._epoch = epoch
        self._steps = steps_of_epoch(self.steps_per_epoch, self.params)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Keras calls it."""
        # Keras begins a batch too many when data runs out earlier than it thought.
        if self._done or batch >= self._steps:
            return
        over = epoch_reached(self.model, self._epoch, batch, self._steps)
        if over < self.warmup_epochs:
            self._rate.set(warmup_rate(over / self.warmup_epochs, self._initial, self._target))
            self._last = self._rate.get()
            return
        self._done = True
        resumed_later = self._last is None and over > self.warmup_epochs
        if resumed_later or self._last not in (None, self._rate.get()):
            return  # the rate is somebody else's by now, such as a schedule's
        self._rate.set(self._target)
        if self.verbose and engine.rank() == 0:
            print(f"\nEpoch {self._epoch + 1}: learning rate warmed up to {self._target:g}")


def warmup_rate(progress: float, initial: float, target: float) -> float:
    """The rate when a share `progress` (0 to 1) of the warm-up is over."""
    return initial + (target - initial) * progress
