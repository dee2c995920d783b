"""Which variables a training step changes before its gradients have been reduced."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfring import keras_hooks
from tfring.elastic.saved_values import native
from tfring.model_state import optimizers_of


class StepVariables:
    """The variables of a model by what a step does to them.

    Args:
        model: A `keras.Model`, or None.
        optimizer: The one that trains it; default: those of the model.
        variables: Others that a step changes.
    """

    def __init__(self, model: Any = None, optimizer: Any = None, variables: Any = ()) -> None:
        self._model = model
        self._optimizer = optimizer
        self._others = list(variables)

    def optimizers(self) -> list[Any]:
        """All optimizers, the model's own first."""
        given = [] if self._optimizer is None else [self._optimizer]
        found = optimizers_of(self._model) if self._model is not None else []
        return list({id(one): one for one in [*given, *found]}.values())

    def accumulating(self) -> Any | None:
        """The optimizer that adds up the gradients of several steps, if it is the only one."""
        optimizers = self.optimizers()
        return keras_hooks.accumulating_optimizer(optimizers[0]) if len(optimizers) == 1 else None

    def accumulators(self) -> list[tf.Variable]:
        """The sums of gradients that an optimizer keeps for its next update."""
        found: dict[int, Any] = {}
        for optimizer in self.optimizers():
            ids = keras_hooks.accumulator_ids(optimizer)
            found.update({id(v): v for v in optimizer.variables if id(v) in ids})
        return [native(variable) for variable in found.values()]

    def early(self) -> list[tf.Variable]:
        """Those that may change before all gradients have been reduced.

        Averages of BatchNormalization, seeds, metrics. With accumulation also what the calls
        before an update's last change: counts, loss scales and moving averages of weights.
        """
        found: dict[int, Any] = {}
        trainable: set[int] = set()
        if self._model is not None:
            trainable = {
                id(v)
                for v in self._model.trainable_variables
                if not keras_hooks.overwritten_by_gradient(v)
            }
            metrics = [v for metric in self._model.metrics for v in metric.variables]
            found = {id(v): v for v in (*self._model.variables, *metrics)}
        found.update({id(v): v for v in self._others if not getattr(v, "trainable", False)})
        averaging = self.accumulating() is not None and getattr(
            self.accumulating(), "use_ema", False
        )
        for optimizer in self.optimizers():
            ids = keras_hooks.accumulator_ids(optimizer)
            found.update(
                {
                    id(v): v
                    for v in optimizer.variables
                    if id(v) not in ids and (averaging or tuple(v.shape) == ())
                }
            )
        if averaging:
            trainable = set()
        return [native(variable) for key, variable in found.items() if key not in trainable]

    def late(self) -> list[tf.Variable]:
        """All others: they change behind the gate of the optimizer that changes them."""
        early = {id(variable) for variable in self.early()}
        every: list[Any] = list(self._others)
        if self._model is not None:
            every += self._model.variables
        for optimizer in self.optimizers():
            every += optimizer.variables
        unique = {id(native(v)): native(v) for v in every}
        return [variable for key, variable in unique.items() if key not in early]
