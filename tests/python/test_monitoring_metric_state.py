"""The state of Keras's metrics can be added up, and what is said of others is heard."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import keras
import numpy as np
import pytest

import tfring
from tfring.errors import InvalidArgumentError
from tfring.monitoring import metric_state
from tfring.monitoring.metric_state import state_variables

SIZES = [1, 17, 0, 6]  # of the shards
TOTAL = sum(SIZES)

rng = np.random.default_rng(0)
binary = (rng.integers(0, 2, (TOTAL, 1)), rng.random((TOTAL, 1), np.float32))
classes = (
    np.eye(4, dtype=np.float32)[rng.integers(0, 4, TOTAL)],
    rng.dirichlet(np.ones(4), TOTAL).astype(np.float32),
)
sparse = (rng.integers(0, 4, (TOTAL, 1)), classes[1])
labels = (rng.integers(0, 4, TOTAL), rng.integers(0, 4, TOTAL))
regression = (rng.random((TOTAL, 3), np.float32), rng.random((TOTAL, 3), np.float32))

# Metrics that take arguments or data other than numbers for numbers.
SPECIAL: dict[str, tuple[Callable[[type], Any], tuple[Any, ...]]] = {
    "AUC": (lambda cls: cls(num_thresholds=50), binary),
    "BinaryIoU": (lambda cls: cls(), binary),
    "CategoricalAccuracy": (lambda cls: cls(), classes),
    "CategoricalCrossentropy": (lambda cls: cls(), classes),
    "F1Score": (lambda cls: cls(average="weighted"), classes),
    "FBetaScore": (lambda cls: cls(beta=2.0), classes),
    "IoU": (lambda cls: cls(4, target_class_ids=[0, 2]), labels),
    "Mean": (lambda cls: cls(), regression[:1]),
    "MeanIoU": (lambda cls: cls(4), labels),
    "MeanMetricWrapper": (lambda cls: cls(keras.losses.mean_squared_error), regression),
    "OneHotIoU": (lambda cls: cls(4, target_class_ids=[1]), classes),
    "OneHotMeanIoU": (lambda cls: cls(4), classes),
    "PrecisionAtRecall": (lambda cls: cls(0.5), binary),
    "RecallAtPrecision": (lambda cls: cls(0.5), binary),
    "SensitivityAtSpecificity": (lambda cls: cls(0.5), binary),
    "SparseCategoricalAccuracy": (lambda cls: cls(), sparse),
    "SparseCategoricalCrossentropy": (lambda cls: cls(), sparse),
    "SparseTopKCategoricalAccuracy": (lambda cls: cls(k=2), sparse),
    "SpecificityAtSensitivity": (lambda cls: cls(0.5), binary),
    "Sum": (lambda cls: cls(), regression[:1]),
    "TopKCategoricalAccuracy": (lambda cls: cls(k=2), classes),
}
for _name in ("FalseNegatives", "FalsePositives", "TrueNegatives", "TruePositives"):
    SPECIAL[_name] = (lambda cls: cls(), binary)
for _name in ("BinaryAccuracy", "BinaryCrossentropy", "Precision", "Recall"):
    SPECIAL[_name] = (lambda cls: cls(), binary)

CLASSES = {
    name: cls
    for name, cls in vars(keras.metrics).items()
    if inspect.isclass(cls) and issubclass(cls, keras.metrics.Metric) and name != "Metric"
}


@pytest.mark.parametrize("name", sorted(CLASSES))
@pytest.mark.parametrize("weighted", [False, True])
def test_the_state_of_every_keras_metric_adds_up(name: str, weighted: bool) -> None:
    make, data = SPECIAL.get(name, (lambda cls: cls(), regression))
    cls = CLASSES[name]
    weights = rng.random(TOTAL).astype(np.float32)

    def updated(rows: slice) -> Any:
        metric = make(cls)
        if rows.start < rows.stop:
            extra = {"sample_weight": weights[rows]} if weighted else {}
            metric.update_state(*(array[rows] for array in data), **extra)
        return metric

    ends = np.cumsum(SIZES)
    shards = [updated(slice(end - n, end)) for n, end in zip(SIZES, ends, strict=True)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        described = [[s.describe() for s in state_variables([shard])] for shard in shards]
    assert {op for op, _, _ in described[1]} == {"SUM"}
    whole = updated(slice(0, TOTAL))
    states = [
        sum(
            np.asarray(shard.variables[i]).astype(np.float64)
            for shard in shards
            if len(shard.variables) > i
        )
        for i in range(len(whole.variables))
    ]
    for variable, state in zip(shards[1].variables, states, strict=True):
        variable.assign(state.astype(str(variable.dtype)))
    np.testing.assert_allclose(
        np.asarray(shards[1].result()), np.asarray(whole.result()), rtol=1e-5, atol=1e-6
    )


class Range(keras.metrics.Metric):
    """Largest and smallest value, from outside Keras."""

    def __init__(self, name: str = "range") -> None:
        super().__init__(name=name)
        self.largest = self.add_variable((), "zeros", name="largest")
        self.smallest = self.add_variable((), "ones", name="smallest")

    def reset_state(self) -> None:
        self.largest.assign(0.0)
        self.smallest.assign(1.0)

    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        self.largest.assign(keras.ops.maximum(self.largest, keras.ops.max(values)))
        self.smallest.assign(keras.ops.minimum(self.smallest, keras.ops.min(values)))

    def result(self) -> Any:
        return self.largest - self.smallest


class Count(keras.metrics.Metric):
    """Numbers of values, as two sums."""

    def __init__(self) -> None:
        super().__init__(name="count")
        self.count = self.add_variable((), "zeros", name="count")

    def result(self) -> Any:
        return self.count


def operations(metrics: list[Any], **options: Any) -> list[str]:
    return [state.op.name for state in state_variables(metrics, **options)]


def test_a_state_that_does_not_begin_with_zeros_is_no_sum() -> None:
    with pytest.raises(InvalidArgumentError, match=r"'range' .* does not begin with zeros"):
        operations([Range()])


def test_metrics_say_how_their_state_is_reduced() -> None:
    class Declared(Range):
        tfring_reduce: ClassVar = {"largest": tfring.Max, "smallest": tfring.Min}

    assert operations([Declared()]) == ["MAX", "MIN"]
    given = {Range: {"largest": tfring.Max, "smallest": tfring.Min}}
    assert operations([Range()], reductions=given) == ["MAX", "MIN"]
    instance = Count()
    instance.tfring_reduce = tfring.Product
    assert operations([instance]) == ["PRODUCT"]
    instance.tfring_reduce = "sum"
    with pytest.raises(InvalidArgumentError, match=r"expected a ReduceOp .* received 'sum'"):
        operations([instance])


def test_keras_own_way_of_saying_it_is_understood() -> None:
    metric = Count()
    metric.add_variable((), "zeros", aggregation="mean", name="average")
    metric_state._warned.add(Count)
    assert operations([metric]) == ["SUM", "AVERAGE"]
    metric.add_variable((), "zeros", aggregation="only_first_replica", name="odd")
    with pytest.raises(InvalidArgumentError, match="how do ranks combine its variable 'odd'"):
        operations([metric])


def test_adding_up_an_unknown_state_is_said_once() -> None:
    metric_state._warned.discard(Count)
    with pytest.warns(RuntimeWarning, match=r"'count' \(Count\) is added up over the ranks"):
        operations([Count()])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        operations([Count()])


def test_metrics_of_a_compiled_model_are_found() -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, activation="softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    assert [state.metric for state in state_variables(model.metrics)] == ["loss", "loss"]
    model.evaluate(np.zeros((4, 3)), np.zeros(4), verbose=0)
    names = [(state.metric, state.variable.name) for state in state_variables(model.metrics)]
    assert names == [
        *(("loss", "total"), ("loss", "count")),
        *(("accuracy", "total"), ("accuracy", "count")),
    ]
