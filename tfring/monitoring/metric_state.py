"""Metrics over the data of all ranks, by adding up their state.

The mean of the ranks' accuracies is not the accuracy over all data unless all ranks have
seen equally many samples, and no average of AUCs is the AUC. What can be added up is the
state that a metric keeps: totals and counts, true and false positives at each threshold. So
the ranks add up the state and compute the result from the sum, as one process would have.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from tfring import arrays, engine, objects
from tfring.errors import InvalidArgumentError, MismatchError
from tfring.reduce_op import ReduceOp

# How the state of one metric is reduced: all of it, or by the names of its variables.
Reduction = ReduceOp | Mapping[str, ReduceOp]

# What Keras calls them, for variables of metrics (keras.Variable.aggregation).
_AGGREGATIONS = {"sum": ReduceOp.SUM, "mean": ReduceOp.AVERAGE}

_warned: set[type] = set()


@dataclass(frozen=True)
class StateVariable:
    """One variable of a metric and how the ranks' values of it become one.

    Attributes:
        metric: The metric's name.
        variable: The `keras.Variable`.
        op: The reduction.
    """

    metric: str
    variable: Any
    op: ReduceOp

    def describe(self) -> tuple[str, str, tuple[int, ...]]:
        """What must be equal on all ranks: names may differ, since Keras numbers them."""
        return self.op.name, str(self.variable.dtype), tuple(self.variable.shape)


def state_variables(
    metrics: Sequence[Any], reductions: Mapping[type, Reduction] | None = None
) -> list[StateVariable]:
    """The variables of metrics, those of nested metrics included.

    All metrics of Keras keep sums. A metric of one's own says how its state is reduced by
    an attribute `tfring_reduce`: a `ReduceOp` for all variables, or a mapping from their
    names. Or by Keras's argument `aggregation` ("sum" or "mean") of `add_variable`, where
    sum is the default.

    Args:
        metrics: Of Keras.
        reductions: The same as `tfring_reduce` for classes that can't be changed.

    Raises:
        InvalidArgumentError: It can't be told how some state is reduced.
    """
    found = []
    for metric in _leaves(metrics):
        declared = _declared(metric, reductions or {})
        for variable in metric.variables:
            op = declared.get(variable.name) if isinstance(declared, Mapping) else declared
            if op is None:
                op = _undeclared(metric, variable)
            found.append(StateVariable(metric.name, variable, op))
    return found


@contextlib.contextmanager
def global_state(
    metrics: Sequence[Any],
    *,
    reductions: Mapping[type, Reduction] | None = None,
    name: str = "metrics",
) -> Iterator[None]:
    """Within it, metrics have the state of all ranks together; afterwards their own again.

    All ranks enter it, with the same metrics. A rank whose metrics have seen no data may
    lack variables that the others have, since Keras builds some with the first data; its
    metrics then stay as they are.

    Example:

    >>> with tfring.monitoring.global_state([loss, accuracy]):
    ...     print(loss.result(), accuracy.result())

    Args:
        metrics: Of Keras, for instance `model.metrics`.
        reductions: As for `state_variables`.
        name: The same on every rank.

    Raises:
        InvalidArgumentError: It can't be told how some state is reduced.
        MismatchError: The ranks have different metrics.
    """
    if engine.size() == 1:
        yield
        return
    own = state_variables(metrics, reductions)
    values = [keras.ops.convert_to_numpy(state.variable) for state in own]
    structure = [state.describe() for state in own]
    everyone = objects.allgather_object((structure, any(map(np.any, values))), name=f"{name}/state")
    reference = max((structure for structure, _ in everyone), key=len)
    same = structure == reference
    _require_comparable(own, everyone, reference)
    reduced = _reduce(values if same else None, reference, name)
    if not same:
        yield
        return
    for state, value in zip(own, reduced, strict=True):
        state.variable.assign(value)
    try:
        yield
    finally:
        for state, value in zip(own, values, strict=True):
            state.variable.assign(value)


def _leaves(metrics: Sequence[Any]) -> Iterator[Any]:
    """The metrics with state of their own; what `compile` makes of a list is a list."""
    for metric in metrics:
        nested = getattr(metric, "metrics", None)
        if isinstance(nested, list | tuple):
            yield from _leaves(nested)
        else:
            yield metric


def _declared(metric: Any, reductions: Mapping[type, Reduction]) -> Reduction | None:
    for cls in type(metric).__mro__:
        if cls in reductions:
            return reductions[cls]
    declared: Reduction | None = getattr(metric, "tfring_reduce", None)
    if isinstance(declared, Mapping | ReduceOp | None):
        return declared
    raise InvalidArgumentError(
        f"tfring_reduce of metric {metric.name!r}: expected a ReduceOp such as tfring.Sum, or a "
        f"mapping from names of variables to one; received {declared!r}"
    )


def _undeclared(metric: Any, variable: Any) -> ReduceOp:
    op = _AGGREGATIONS.get(str(getattr(variable, "aggregation", "sum")))
    if op is None:
        raise InvalidArgumentError(
            f"metric {metric.name!r} ({type(metric).__name__}): how do ranks combine its "
            f"variable {variable.name!r}? Give the class an attribute tfring_reduce = "
            f"{{{variable.name!r}: tfring.Max}}, or whatever is right"
        )
    if op is ReduceOp.SUM and not _of_keras(metric):
        _doubt_sum(metric)
    return op


def _of_keras(metric: Any) -> bool:
    means = (keras.metrics.Mean, keras.metrics.Sum)
    return isinstance(metric, means) or type(metric).__module__.startswith("keras.")


def _doubt_sum(metric: Any) -> None:
    """A state that does not begin with zeros is no sum; of any other, adding up is a guess."""
    cls = type(metric)
    if cls in _warned:
        return
    initial = [np.asarray(value) for value in metric.stateless_reset_state()]
    advice = (
        f"Give the class an attribute tfring_reduce: tfring.Sum if sums are right, or a mapping "
        f"from the names of its variables ({', '.join(v.name for v in metric.variables)}) to "
        "tfring.Sum, Min, Max, Product or Average"
    )
    if any(map(np.any, initial)):
        raise InvalidArgumentError(
            f"the state of metric {metric.name!r} ({cls.__name__}) does not begin with zeros, so "
            f"the ranks' states can't be added up. {advice}"
        )
    _warned.add(cls)
    warnings.warn(
        f"the state of metric {metric.name!r} ({cls.__name__}) is added up over the ranks, which "
        f"is a guess. {advice}",
        RuntimeWarning,
        stacklevel=2,
    )


def _require_comparable(
    own: Sequence[StateVariable], everyone: Sequence[tuple[list[Any], bool]], reference: list[Any]
) -> None:
    odd = [
        rank
        for rank, (structure, seen_data) in enumerate(everyone)
        if structure != reference and seen_data
    ]
    if odd:
        counts = ", ".join(
            f"{len(structure)} on rank {i}" for i, (structure, _) in enumerate(everyone)
        )
        raise MismatchError(
            f"the ranks have different metrics; ranks {odd} are not like the others. Numbers of "
            f"state variables: {counts}. Metrics here: {sorted({state.metric for state in own})}"
        )


def _reduce(
    values: Sequence[np.ndarray] | None, structure: Sequence[Any], name: str
) -> list[np.ndarray]:
    """The ranks' values as one; a rank without values (None) changes nothing."""
    reduced: list[Any] = [None] * len(structure)
    for op in ReduceOp:
        positions = [i for i, (kind, _, _) in enumerate(structure) if kind == op.name]
        if not positions:
            continue
        wide = [
            _neutral(op, *structure[i][1:]) if values is None else _widen(values[i])
            for i in positions
        ]
        average = op is ReduceOp.AVERAGE
        if average:  # over the ranks that have a value
            wide.append(np.array(0.0 if values is None else 1.0))
        results = arrays.allreduce_arrays(
            wide, op=ReduceOp.SUM if average else op, name=f"{name}/{op.name.lower()}"
        )
        for position, result in zip(positions, results, strict=False):
            value = result / results[-1] if average else result
            reduced[position] = np.asarray(value).astype(_numpy_type(structure[position][1]))
    return reduced


def _widen(value: np.ndarray) -> np.ndarray:
    """Counts beyond 2**24 are no longer exact in float32; so sums over ranks are wide."""
    if value.dtype.kind in "iub":
        return value.astype(np.int64)
    return value.astype(np.float64)


def _neutral(op: ReduceOp, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    kind = _widen(np.zeros(shape, _numpy_type(dtype)))
    if op in (ReduceOp.SUM, ReduceOp.AVERAGE):
        return kind
    if op is ReduceOp.PRODUCT:
        return np.ones_like(kind)
    limits = np.iinfo(kind.dtype) if kind.dtype.kind == "i" else np.finfo(kind.dtype)
    return np.full_like(kind, limits.min if op is ReduceOp.MAX else limits.max)


def _numpy_type(name: str) -> np.dtype:
    return np.dtype("float32") if name == "bfloat16" else np.dtype(name)
