"""`AverageMetrics`: results over the data of all ranks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from tfring import engine, objects
from tfring.monitoring.metric_state import Reduction, global_state
from tfring.moving_averages import average_moving_averages

Logs = dict[str, Any]


class AverageMetrics(keras.callbacks.Callback):
    """Makes `fit` and `evaluate` report metrics over the data of all ranks, exactly.

    At the end of each epoch and of each evaluation the ranks add up the state of their
    metrics (totals and counts, true and false positives, ...) and compute the results from
    that. So loss, accuracy, AUC and all others are those that one process would have found
    over all data, however unequal the shards are; a rank may even have none.

    All callbacks, before and after this one, see the same logs on every rank, validation
    included, and so does the caller of `evaluate`. Keras's EarlyStopping, ReduceLROnPlateau
    and ModelCheckpoint decide alike everywhere. Logs of single batches stay a rank's own.

    Before validation they also average what BatchNormalization has computed from each rank's
    own data (`tfring.moving_averages`), so that all evaluate, and save, the same model.

    A metric of your own says how its state is reduced by an attribute `tfring_reduce`; see
    `tfring.monitoring.metric_state.state_variables`. Values that a `train_step` of your own
    returns and that are no results of metrics are averaged over the ranks.

    Example:

    >>> model.fit(train, validation_data=validation,
    ...           callbacks=[tfring.callbacks.AverageMetrics(), ...])
    >>> model.evaluate(test, callbacks=[tfring.callbacks.AverageMetrics()])

    Args:
        reductions: How the state of metrics is reduced, by their class; for classes that
            can't have the attribute.

    Raises:
        InvalidArgumentError: During training: it can't be told how the state of a metric
            is reduced.
        MismatchError: During training: the ranks have different metrics.
    """

    def __init__(self, *, reductions: Mapping[type, Reduction] | None = None) -> None:
        super().__init__()
        self._reductions = dict(reductions or {})
        self._fitting = False
        self._testing = False
        self._warned = False

    def on_train_begin(self, logs: Any = None) -> None:
        """Keras calls it."""
        self._fitting = True
        self._install()

    def on_train_end(self, logs: Any = None) -> None:
        """Keras calls it."""
        self._fitting = False
        self._remove()

    def on_test_begin(self, logs: Any = None) -> None:
        """Keras calls it."""
        self._testing = True
        if not self._fitting:
            average_moving_averages(self.model)
            self._install()

    def on_test_end(self, logs: Any = None) -> None:
        """Keras calls it."""
        self._testing = False
        if not self._fitting:
            self._remove()

    def _install(self) -> None:
        """Steps in where `fit` and `evaluate` turn the state of metrics into logs.

        That is the method named below: `fit` calls it once an epoch, `evaluate` once. No
        hook of a callback would do: `evaluate` returns other logs than those that its
        callbacks get.
        """
        self._remove()  # of a training that failed
        if engine.size() == 1:
            return
        own = type(self.model)._get_metrics_result_or_logs
        model = self.model
        model.__dict__["_get_metrics_result_or_logs"] = lambda logs: self._global_logs(
            lambda: own(model, logs), logs
        )

    def _remove(self) -> None:
        self.model.__dict__.pop("_get_metrics_result_or_logs", None)

    def _global_logs(self, logs_of_keras: Callable[[], Any], logs: Any) -> Any:
        """The same logs for all ranks; those of the lowest that had any data."""
        if not self._testing:  # an epoch of training has ended, validation comes next
            average_moving_averages(self.model)
        idle = not logs
        before = {} if idle else self.model.get_metrics_result()
        with global_state(self.model.metrics, reductions=self._reductions):
            after = {} if idle else self.model.get_metrics_result()
            exact = logs_of_keras() if set(before) == set(logs or {}) else {}
        others: Logs = {}
        if not idle and not exact:
            exact, others = _sort_out(logs, before, after)
        everyone = objects.allgather_object((_plain(exact), _plain(others)), name="metrics/logs")
        busy = [pair for pair in everyone if any(pair)]
        if not busy:
            return logs
        exact = busy[0][0]
        averages = _average([others for _, others in busy])
        if averages and not self._warned and engine.rank() == 0:
            self._warned = True
            warnings.warn(
                f"{', '.join(averages)}: values of a train_step or test_step that are no results "
                "of the model's metrics; they are averaged over the ranks, of the last batch "
                "only. To have them over all data, keep them in a keras.metrics.Mean",
                RuntimeWarning,
                stacklevel=2,
            )
        return {**exact, **averages}


def _sort_out(logs: Logs, before: Logs, after: Logs) -> tuple[Logs, Logs]:
    """Divides logs of a step of one's own into results of metrics, now exact, and others."""
    exact, others = {}, {}
    for key, value in logs.items():
        if key in before and np.array_equal(np.asarray(value), np.asarray(before[key])):
            exact[key] = after[key]
        else:
            others[key] = value
    return exact, others


def _average(rows: list[Logs]) -> Logs:
    """Means over the ranks that have a value, by key."""
    values: dict[str, list[Any]] = {}
    for row in rows:
        for key, value in row.items():
            values.setdefault(key, []).append(value)
    return {key: _plain(np.mean(list_of, axis=0)) for key, list_of in values.items()}


def _plain(value: Any) -> Any:
    """Tensors as numbers or arrays, within dictionaries too."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    array = np.asarray(keras.ops.convert_to_numpy(value))
    return float(array) if array.ndim == 0 else array
