"""Metrics over all ranks equal those of one process over all data, and all see the same."""

from __future__ import annotations

from typing import Any

import pytest

EXACT = 1e-5


def data(total: int) -> tuple[Any, Any]:
    import numpy as np

    rng = np.random.default_rng(11)
    x = rng.standard_normal((total, 6)).astype(np.float32)
    y = (x @ rng.standard_normal(6) + rng.standard_normal(total) > 0).astype(np.float32)
    return x, y[:, None]


def model_with_metrics() -> Any:
    import keras

    import tfring

    keras.utils.set_random_seed(5)
    model = keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(8, activation="relu", kernel_regularizer="l2"),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(
        tfring.DistributedOptimizer(keras.optimizers.SGD(0.05)),
        "binary_crossentropy",
        metrics=[
            "accuracy",
            "mae",
            keras.metrics.AUC(name="auc"),
            keras.metrics.Precision(name="precision"),
            keras.metrics.Recall(name="recall"),
            keras.metrics.F1Score(
                "micro", threshold=0.5, name="f1"
            ),  # its state is built with data
            keras.metrics.R2Score(name="r2"),
        ],
        weighted_metrics=[keras.metrics.MeanSquaredError(name="mse")],
    )
    return model


def unequal(array: Any, rank: int, size: int) -> Any:
    """Rank 0 gets three rows, the last none, the others the rest."""
    if size == 1:
        return array
    if rank == 0:
        return array[:3]
    if rank == size - 1 and size > 2:
        return array[:0]
    others = max(1, size - 2)
    return array[3 + rank - 1 :: others]


def dataset(x: Any, y: Any, batch_size: int = 4) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices((x, y)).batch(batch_size)


def evaluate_everything(total: int) -> list[tuple[Any, ...]]:
    """(results of all ranks together, of one process over all data) for several shardings."""
    import tfring

    x, y = data(total)
    model = model_with_metrics()
    rank, size = tfring.rank(), tfring.size()
    expected = model.evaluate(dataset(x, y), verbose=0, return_dict=True)
    answers = []
    cases = {
        "keep": tfring.data.shard_arrays(x, y, remainder="keep"),
        "unequal": (unequal(x, rank, size), unequal(y, rank, size)),
        "one has all": (x, y) if rank == size - 1 else (x[:0], y[:0]),
    }
    for name, (own_x, own_y) in cases.items():
        for fresh in (False, True):  # with metrics that no data has built yet
            tested = model_with_metrics() if fresh else model
            got = tested.evaluate(
                dataset(own_x, own_y),
                callbacks=[tfring.callbacks.AverageMetrics()],
                verbose=0,
                return_dict=True,
            )
            answers.append((name, got, expected))
    flat = model.evaluate(
        dataset(*cases["keep"]), callbacks=[tfring.callbacks.AverageMetrics()], verbose=0
    )
    assert flat == pytest.approx(model.evaluate(dataset(x, y), verbose=0), rel=EXACT)
    # Without the callback a rank is on its own again.
    model.evaluate(dataset(*cases["one has all"] if rank == size - 1 else (x, y)), verbose=0)
    return answers


@pytest.mark.parametrize("total", [41, 4])
def test_evaluate_equals_one_process_over_all_data(warm_ranks, ranks: int, total: int) -> None:
    by_rank = warm_ranks(evaluate_everything, total)
    for answers in zip(*by_rank, strict=True):
        name, first, expected = answers[0]
        assert set(first) == set(expected)
        for _, got, _ in answers:
            assert got == first, name
        assert first == pytest.approx(expected, rel=EXACT, abs=1e-6), name


def fit_with_unequal_data() -> tuple[Any, ...]:
    import keras
    import numpy as np

    import tfring

    x, y = data(48)
    x_val, y_val = data(29)
    rank, size = tfring.rank(), tfring.size()
    seen: dict[str, list[Any]] = {"before": [], "after": [], "test": [], "end": []}

    class Note(keras.callbacks.Callback):
        def __init__(self, where: str) -> None:
            super().__init__()
            self.where = where

        def on_epoch_end(self, epoch, logs=None):
            seen[self.where].append(dict(logs))

        def on_test_end(self, logs=None):
            seen["test"].append(dict(logs))

        def on_train_end(self, logs=None):
            seen["end"].append(dict(logs))

    model = model_with_metrics()
    history = model.fit(
        dataset(*tfring.data.shard_arrays(x, y)),
        validation_data=dataset(unequal(x_val, rank, size), unequal(y_val, rank, size)),
        epochs=3,
        callbacks=[
            Note("before"),
            tfring.callbacks.BroadcastInitialVariables(),
            tfring.callbacks.AverageMetrics(),
            Note("after"),
        ],
        verbose=0,
    ).history
    expected = model.evaluate(dataset(x_val, y_val), verbose=0, return_dict=True)
    history = {key: np.asarray(values).tolist() for key, values in history.items()}
    return history, {k: [str(v) for v in values] for k, values in seen.items()}, expected


def test_all_callbacks_see_the_same_logs_on_every_rank(warm_ranks, ranks: int) -> None:
    by_rank = warm_ranks(fit_with_unequal_data)
    history, seen, expected = by_rank[0]
    assert all(answer[:2] == (history, seen) for answer in by_rank)
    assert seen["before"] == seen["after"]
    assert len(seen["after"]) == 3 and len(seen["test"]) == 6
    assert seen["end"] == [seen["after"][-1]] * 2
    last = {key[4:]: values[-1] for key, values in history.items() if key.startswith("val_")}
    assert last == pytest.approx(expected, rel=EXACT, abs=1e-6)


def decide_with_keras_callbacks(directory: str) -> tuple[Any, ...]:
    """A validation in which ranks would decide differently, each for itself."""
    import os

    import keras

    import tfring
    from tfring.variables import weights_digest

    rank = tfring.rank()
    x, y = data(40)
    if rank % 2:
        y = 1 - y  # what is better for one is worse for the other
    model = model_with_metrics()
    model.optimizer.learning_rate = 0.5
    path = os.path.join(directory, f"rank-{rank}.keras")
    plateau = keras.callbacks.ReduceLROnPlateau("val_loss", patience=1, factor=0.5, min_delta=0.02)
    stop = keras.callbacks.EarlyStopping("val_auc", mode="max", patience=3, min_delta=0.02)
    best = keras.callbacks.ModelCheckpoint(path, save_best_only=True)
    history = model.fit(
        dataset(x, y),
        validation_data=dataset(x[: 40 - 5 * rank], y[: 40 - 5 * rank]),
        epochs=30,
        callbacks=[
            stop,
            tfring.callbacks.BroadcastInitialVariables(),
            tfring.callbacks.AverageMetrics(),
            plateau,
            best,
        ],
        verbose=0,
    ).history
    saved = keras.models.load_model(path)
    return history, stop.stopped_epoch, weights_digest(saved.weights), weights_digest(model.weights)


def test_keras_callbacks_decide_alike(warm_ranks, tmp_path) -> None:
    by_rank = warm_ranks(decide_with_keras_callbacks, str(tmp_path))
    assert all(answer == by_rank[0] for answer in by_rank)
    history, stopped, _, _ = by_rank[0]
    assert 0 < stopped < 29
    assert len(set(history["learning_rate"])) > 1


def train_step_of_ones_own() -> Any:
    import keras
    import numpy as np

    import tfring

    class Model(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(1)
            self.seen = keras.metrics.Sum(name="seen")

        def call(self, x):
            return self.dense(x)

        @property
        def metrics(self):
            return [self.seen]

        def train_step(self, batch):
            x, _ = batch
            self.seen.update_state(x[:, 0])
            gradient = [keras.ops.ones_like(v) for v in self.trainable_variables]
            self.optimizer.apply(gradient, self.trainable_variables)
            return {"seen": self.seen.result(), "last": keras.ops.max(x)}

    model = Model()
    model(np.zeros((1, 2)))
    model.compile(tfring.DistributedOptimizer("sgd"))
    rank = tfring.rank()
    x = np.full((4, 2), float(rank + 1), np.float32)
    callbacks = [
        tfring.callbacks.BroadcastInitialVariables(),
        tfring.callbacks.AverageMetrics(),
    ]
    return model.fit(x, x, batch_size=2, callbacks=callbacks, verbose=0).history


def test_logs_of_a_train_step_of_ones_own(warm_ranks, ranks: int) -> None:
    total = sum(4 * (rank + 1) for rank in range(ranks))
    mean = sum(rank + 1 for rank in range(ranks)) / ranks
    expected = {"seen": [total], "last": [mean]}
    assert warm_ranks(train_step_of_ones_own) == [expected] * ranks


def metrics_that_are_no_sums() -> Any:
    import keras
    import numpy as np

    import tfring
    from tfring.errors import InvalidArgumentError, MismatchError
    from tfring.monitoring import global_state

    class Extremes(keras.metrics.Metric):
        def __init__(self):
            super().__init__(name="extremes")
            self.low = self.add_variable((2,), "zeros", name="low")
            self.high = self.add_variable((2,), "zeros", name="high", dtype="int32")
            self.mean = self.add_variable((), "zeros", name="mean", aggregation="mean")

        tfring_reduce = {"low": tfring.Min, "high": tfring.Max}  # noqa: RUF012

    rank, size = tfring.rank(), tfring.size()
    metric = Extremes()
    metric.low.assign(np.array([rank, -rank]))
    metric.high.assign(np.array([rank, -rank]))
    metric.mean.assign(rank)
    with global_state([metric]):
        np.testing.assert_array_equal(metric.low.numpy(), [0, 1 - size])
        np.testing.assert_array_equal(metric.high.numpy(), [size - 1, 0])
        assert float(metric.mean.numpy()) == (size - 1) / 2
    np.testing.assert_array_equal(metric.high.numpy(), [rank, -rank])

    # Counts beyond 2**24, which float32 can't count one by one.
    count = keras.metrics.Sum()
    count.total.assign(2.0**24 if rank == 0 else 1.0)
    with global_state([count]):
        assert float(count.result()) == np.float32(2.0**24 + size - 1)

    mine = [keras.metrics.Sum()] if rank else [keras.metrics.Mean()]
    mine[0].update_state(1.0)
    with pytest.raises(MismatchError, match="different metrics"), global_state(mine):
        pass
    metric.__class__.tfring_reduce = "max"
    with pytest.raises(InvalidArgumentError, match="received 'max'"), global_state([metric]):
        pass


def test_state_that_is_no_sum_and_metrics_that_differ(warm_ranks, ranks: int) -> None:
    if ranks < 2:
        pytest.skip("needs two ranks")
    warm_ranks(metrics_that_are_no_sums)


def batch_normalization() -> tuple[bool, str, list[float], list[float]]:
    import keras
    import numpy as np

    import tfring
    from tfring.variables import weights_digest

    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((3,)), keras.layers.BatchNormalization(momentum=0.5)])
    model.add(keras.layers.Dense(1))
    frozen = keras.layers.Dense(1, trainable=False)
    model.add(frozen)
    model.compile(tfring.DistributedOptimizer("sgd"), "mse")
    before = frozen.kernel.numpy()
    x = np.full((8, 3), 1.0 + tfring.rank(), np.float32)
    begin = tfring.callbacks.BroadcastInitialVariables()
    model.fit(x, x[:, :1], batch_size=4, callbacks=[begin], verbose=0)
    apart = model.layers[0].moving_mean.numpy().tolist()
    model.fit(
        *(x, x[:, :1]),
        batch_size=4,
        epochs=2,
        callbacks=[begin, tfring.callbacks.AverageMetrics()],
        verbose=0,
    )
    together = model.layers[0].moving_mean.numpy().tolist()
    untouched = np.array_equal(before, frozen.kernel.numpy())
    return untouched, weights_digest(model.weights), apart, together


def test_moving_averages_are_those_of_all_ranks(warm_ranks, ranks: int) -> None:
    by_rank = warm_ranks(batch_normalization)
    assert len({digest for _, digest, _, _ in by_rank}) == 1
    assert all(untouched for untouched, _, _, _ in by_rank)
    assert len({str(apart) for _, _, apart, _ in by_rank}) == ranks
    # Halfway to the mean twice an epoch, from 0 for the first fit.
    mean = sum(rank + 1 for rank in range(ranks)) / ranks
    root = by_rank[0][2][0]  # the second fit begins with rank 0's
    for _ in range(4):
        root = 0.5 * root + 0.5 * mean
    assert by_rank[0][3][0] == pytest.approx(root, rel=1e-4)
