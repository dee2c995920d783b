"""The state of a model's metrics, taken and put back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from tfring.monitoring.metric_state import state_variables
from tfring.reduce_op import ReduceOp

_COMBINE: dict[ReduceOp, Any] = {
    ReduceOp.SUM: np.add,
    ReduceOp.PRODUCT: np.multiply,
    ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum,
    ReduceOp.AVERAGE: lambda one, other: (one + other) / 2,
}


def values(model: Any) -> list[np.ndarray]:
    """The state of all metrics."""
    return [keras.ops.convert_to_numpy(variable) for variable in _variables(model)]


def restore(model: Any, before: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """Gives metrics a state.

    Returns:
        The state, if it does not fit because Keras has not built all metrics yet.
    """
    if not _fits(model, before):
        return list(before)
    for variable, value in zip(_variables(model), before, strict=True):
        variable.assign(value)
    return None


def add(model: Any, before: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """Adds a state to what metrics have, as if they had seen the data of both.

    Returns:
        The state, if it does not fit yet.
    """
    if not _fits(model, before):
        return list(before)
    found = {id(state.variable): state.op for state in state_variables(model.metrics)}
    for variable, value in zip(_variables(model), before, strict=True):
        own = keras.ops.convert_to_numpy(variable)
        combine = _COMBINE[found.get(id(variable), ReduceOp.SUM)]
        variable.assign(combine(own, value).astype(own.dtype))
    return None


def _variables(model: Any) -> list[Any]:
    return [variable for metric in model.metrics for variable in metric.variables]


def _fits(model: Any, state: Sequence[np.ndarray]) -> bool:
    return [tuple(v.shape) for v in _variables(model)] == [value.shape for value in state]
