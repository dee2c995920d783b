"""Changing an optimizer's learning rate, as warm-up and schedules do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfring.elastic.fit_follower import epoch_fraction
from tfring.errors import InvalidArgumentError
from tfring.keras_hooks import inner_optimizers


class LearningRate:
    """The learning rate of a model's optimizer.

    With momentum correction the velocity of SGD is scaled along. Keras keeps v = m v - lr g,
    so v is in units of the learning rate of earlier steps: when the rate rises tenfold, past
    gradients would count for a tenth. (Goyal et al., "Accurate, Large Minibatch SGD", 2017,
    section 3, remark 3.) Adam and its kind keep gradients without the rate and need none.

    Args:
        model: Compiled.
        momentum_correction: Whether to do that.

    Raises:
        InvalidArgumentError: The model has no optimizer with a rate that can be set.
    """

    def __init__(self, model: Any, *, momentum_correction: bool = True) -> None:
        optimizer = getattr(model, "optimizer", None)
        if optimizer is None:
            raise InvalidArgumentError(f"model {model.name!r} has no optimizer; compile it first")
        self._momentum_correction = momentum_correction
        self._optimizers = [optimizer, *inner_optimizers(optimizer)]
        self._optimizer = optimizer
        try:
            self.set(self.get())
        except (TypeError, ValueError, AttributeError) as error:
            raise InvalidArgumentError(
                f"the learning rate of optimizer {optimizer.name!r} can't be set: {error}. "
                "Create it with a number as learning_rate, not with a LearningRateSchedule of "
                "Keras"
            ) from error

    def get(self) -> float:
        """The rate now."""
        return float(keras.ops.convert_to_numpy(self._optimizer.learning_rate))

    def set(self, rate: float) -> None:
        """Changes it."""
        rate = float(np.float32(rate))  # as it will be kept
        old = self.get()
        self._optimizer.learning_rate = rate
        if self._momentum_correction and old > 0 and rate != old:
            for optimizer in self._optimizers:
                _scale_velocity(optimizer, rate / old)

    def keep(self) -> Callable[[], None]:
        """A function that puts back what is changed here: rate and velocities, by reference."""
        rate = self.get()
        velocities = [
            (velocity, tf.convert_to_tensor(velocity))
            for optimizer in self._optimizers
            for velocity in _velocities(optimizer)
        ]

        def put_back() -> None:
            self._optimizer.learning_rate = rate
            for velocity, value in velocities:
                velocity.assign(value)

        return put_back


def _scale_velocity(optimizer: Any, factor: float) -> None:
    if factor > 0:
        for velocity in _velocities(optimizer):
            velocity.assign(velocity * factor)


def _velocities(optimizer: Any) -> list[Any]:
    sgd = isinstance(optimizer, keras.optimizers.SGD) and optimizer.built
    return list(optimizer.momentums) if sgd else []


def steps_of_epoch(given: int | None, params: dict[str, Any] | None) -> int:
    """Batches an epoch: as given, or as Keras has found.

    Raises:
        InvalidArgumentError: Neither is known.
    """
    steps = given or (params or {}).get("steps")
    if not steps:
        raise InvalidArgumentError(
            "steps_per_epoch: the length of the training data is unknown, so tell how many "
            "batches an epoch has"
        )
    return int(steps)


def epoch_reached(model: Any, epoch: int, batch: int, steps: int) -> float:
    """The epoch as a fraction, such as 2.5 in the middle of the third.

    Args:
        model: In an elastic job it may have entered the epoch in the middle.
        epoch, batch: As Keras counts them.
        steps: Batches that this call of `fit` takes in the epoch.
    """
    over, _ = epoch_fraction(model)
    return epoch + over + (1 - over) * batch / steps
