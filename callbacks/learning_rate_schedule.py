"""`LearningRateSchedule`: the learning rate as a function of the epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras

from tfring import engine
from tfring.callbacks.learning_rate import LearningRate, epoch_reached, steps_of_epoch
from tfring.errors import InvalidArgumentError

Schedule = Callable[[float], float | None]


class LearningRateSchedule(keras.callbacks.Callback):
    """Sets the learning rate by epoch or by batch.

    Where the schedule says nothing the rate is left alone, so that it can follow a
    `LearningRateWarmup`.

    Example:

    >>> rate = 0.1 * tfring.size()
    >>> tfring.callbacks.LearningRateSchedule({30: rate / 10, 60: rate / 100, 80: rate / 1000})
    >>> tfring.callbacks.LearningRateSchedule(
    ...     lambda epoch: rate * 0.5 * (1 + math.cos(math.pi * epoch / 90)), by="batch")

    Args:
        schedule: A mapping from the first epoch (from 0) at which a rate holds to the rate;
            or a function that takes the epoch and returns a rate, or None to leave it alone.
        by: "epoch": set it at the beginning of each epoch. "batch": before each batch, with
            the epoch as a fraction, such as 2.5 in the middle of the third.
        momentum_correction: Scale the velocity of SGD along; see
            `tfring.callbacks.learning_rate.LearningRate`.
        steps_per_epoch: Batches an epoch, for `by="batch"`, if the length of the data is
            unknown.
        verbose: 1: rank 0 tells of changes by epoch.

    Raises:
        InvalidArgumentError: `schedule` or `by` is none of these; during training: the rate
            can't be set, is not above 0, or the number of batches is unknown.
    """

    def __init__(
        self,
        schedule: Mapping[float, float] | Schedule,
        *,
        by: str = "epoch",
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__()
        if by not in ("epoch", "batch"):
            raise InvalidArgumentError(f"by: expected 'epoch' or 'batch', received {by!r}")
        if isinstance(schedule, Mapping):
            schedule = piecewise(schedule)
        if not callable(schedule):
            raise InvalidArgumentError(
                f"schedule: expected a mapping from epochs to rates or a function, received "
                f"{schedule!r}"
            )
        self.schedule: Schedule = schedule
        self.by = by
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.verbose = verbose

    def on_train_begin(self, logs: Any = None) -> None:
        """Keras calls it."""
        self._rate = LearningRate(self.model, momentum_correction=self.momentum_correction)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Keras calls it."""
        self._epoch = epoch
        if self.by == "epoch":
            self._apply(epoch)
        else:
            self._steps = steps_of_epoch(self.steps_per_epoch, self.params)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Keras calls it."""
        # Keras begins a batch too many when data runs out earlier than it thought.
        if self.by == "batch" and batch < self._steps:
            self._apply(epoch_reached(self.model, self._epoch, batch, self._steps))

    def _apply(self, epoch: float) -> None:
        rate = self.schedule(epoch)
        if rate is None:
            return
        if not rate > 0:
            raise InvalidArgumentError(
                f"schedule: expected a rate above 0 for epoch {epoch:g}, received {rate}"
            )
        before = self._rate.get()
        self._rate.set(float(rate))
        if (
            self.verbose
            and self.by == "epoch"
            and engine.rank() == 0
            and self._rate.get() != before
        ):
            print(f"\nEpoch {int(epoch) + 1}: learning rate {float(rate):g}")


def piecewise(rates: Mapping[float, float]) -> Schedule:
    """The rate of the last epoch in `rates` that has begun; None before the first.

    Example:

    >>> [piecewise({2: 0.1, 4: 0.01})(epoch) for epoch in range(6)]
    [None, None, 0.1, 0.1, 0.01, 0.01]
    """
    steps = sorted(rates.items())

    def rate(epoch: float) -> float | None:
        reached = [value for start, value in steps if start <= epoch]
        return reached[-1] if reached else None

    return rate
