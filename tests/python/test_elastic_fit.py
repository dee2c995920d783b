"""A `fit` that is left by an exception and called again goes on as if nothing had happened."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfring
import tfring.callbacks
from harness.failing_reductions import FailingReductions
from tfring.elastic import KerasState
from tfring.elastic.callback_state import CallbackMemory

BATCH, BATCHES, EPOCHS = 4, 5, 4


@pytest.fixture(autouse=True)
def job() -> Any:
    tfring.init()
    yield
    tfring.shutdown()


@pytest.fixture
def reductions(monkeypatch: pytest.MonkeyPatch) -> FailingReductions:
    return FailingReductions().install(monkeypatch)


def classifier(**options: Any) -> Any:
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(8),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(4),
        ]
    )
    model.compile(
        tfring.DistributedOptimizer(keras.optimizers.SGD(0.5, momentum=0.9), bucket_bytes=1),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        **options,
    )
    return model


def examples() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((BATCH * BATCHES, 6)).astype("float32")
    return x, (np.abs(x[:, 0] * 3 + x[:, 1]) % 4).astype("int64")


def dataset(state: KerasState) -> tf.data.Dataset:
    """Each epoch the batches that are left of it."""
    x, y = examples()

    def left() -> Any:
        for batch in range(state.batch, BATCHES):
            yield x[batch * BATCH :][:BATCH], y[batch * BATCH :][:BATCH]

    shapes = tf.TensorSpec((BATCH, 6), tf.float32), tf.TensorSpec((BATCH,), tf.int64)
    return tf.data.Dataset.from_generator(left, output_signature=shapes)


class Lost(Exception):
    pass


class Losing(keras.callbacks.Callback):
    """Fails once, at a moment."""

    def __init__(self, event: str, occurrence: int) -> None:
        super().__init__()
        # No plain data: it does not go back with the other callbacks.
        self._occurrences = itertools.count(1)
        self._at = occurrence
        setattr(self, event, self._fail)

    def _fail(self, *_: Any, **__: Any) -> None:
        if next(self._occurrences) == self._at:
            raise Lost


class Counting(keras.callbacks.Callback):
    """Keeps state that nothing sets back."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.seen.append(epoch)


class Training:
    """A training that is entered again whenever it fails, as by `elastic.run`."""

    def __init__(self, directory: Path | None = None, **options: Any) -> None:
        self.model = classifier(**options)
        self.directory = directory
        self.state = KerasState(self.model, epoch=0, batch=0)
        self.entered = 0
        self.extra: list[Any] = []
        self.callbacks: list[Any] = []

    def run(self, on_failure: Callable[[], None] = lambda: None) -> Training:
        while True:
            self.state.sync()
            try:
                self._fit()
                return self
            except (Lost, tf.errors.OpError):
                on_failure()
                self.state.recover()

    def _fit(self) -> None:
        self.entered += 1
        plateau = keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=9)
        stopping = keras.callbacks.EarlyStopping("val_loss", patience=9, restore_best_weights=True)
        self.callbacks = [
            tfring.callbacks.BroadcastInitialVariables(),
            tfring.callbacks.AverageMetrics(),
            stopping,
            Counting(),
            *self.extra,
            plateau,
            tfring.callbacks.CommitState(self.state, 2),
        ]
        if self.directory is not None:
            self.callbacks.append(tfring.callbacks.TensorBoard(str(self.directory), update_freq=1))
        x, y = examples()
        history = self.model.fit(
            dataset(self.state),
            epochs=EPOCHS,
            initial_epoch=self.state.epoch,
            validation_data=(x[:8], y[:8]),
            verbose=0,
            callbacks=self.callbacks,
        )
        assert history is self.model.history

    def outcome(self) -> dict[str, Any]:
        by_name = {type(callback).__name__: callback for callback in self.callbacks}
        return {
            "history": self.model.history.history,
            "epochs": self.model.history.epoch,
            "weights": self.model.get_weights(),
            "optimizer": [np.asarray(v) for v in self.model.optimizer.variables],
            "steps": self.state.completed_steps,
            "epoch": (self.state.epoch, self.state.batch),
            "best": by_name["EarlyStopping"].best,
            "wait": by_name["EarlyStopping"].wait,
            "plateau": by_name["ReduceLROnPlateau"].wait,
            "seen": by_name["Counting"].seen,
        }


@pytest.fixture(scope="module")
def undisturbed() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        FailingReductions().install(patch)
        tfring.init()
        outcome = Training().run().outcome()
    tfring.shutdown()
    assert outcome["steps"] == BATCHES * EPOCHS
    return outcome


def assert_same(outcome: Any, wanted: Any) -> None:
    for name in wanted:
        a, b = outcome[name], wanted[name]
        if isinstance(a, dict):
            assert a.keys() == b.keys(), name
            a, b = list(a.values()), list(b.values())
        if isinstance(a, list):
            for one, other in zip(a, b, strict=True):
                np.testing.assert_array_equal(one, other, err_msg=name)
        else:
            assert a == b, name


@pytest.mark.parametrize("at", [0, 1, 13, 25, 60, 79])
def test_failed_steps(reductions: FailingReductions, undisturbed: Any, at: int) -> None:
    training = Training()
    reductions.fail_after(at)
    training.run(on_failure=lambda: reductions.fail_after(None))
    assert training.entered == 2
    assert_same(training.outcome(), undisturbed)


@pytest.mark.parametrize(
    ("event", "occurrence"),
    [
        ("on_train_begin", 1),
        ("on_epoch_begin", 3),
        ("on_train_batch_begin", 7),
        ("on_train_batch_end", 4),
        ("on_train_batch_end", BATCHES),
        ("on_test_begin", 2),
        ("on_test_batch_end", 2),
        ("on_test_end", 1),
        ("on_epoch_end", 2),
        ("on_epoch_end", EPOCHS),
    ],
)
def test_failures_between_steps(
    reductions: FailingReductions, undisturbed: Any, event: str, occurrence: int
) -> None:
    training = Training()
    training.extra = [Losing(event, occurrence)]
    training.run()
    assert training.entered == 2
    assert_same(training.outcome(), undisturbed)


def test_many_failures_without_tracing_again(
    reductions: FailingReductions, undisturbed: Any, tmp_path: Path
) -> None:
    training = Training(tmp_path)
    traces = []
    compute = training.model.compute_loss
    training.model.compute_loss = lambda *a, **k: (traces.append(1), compute(*a, **k))[1]
    reductions.fail_after(6)
    begun: list[int] = []

    def again() -> None:
        begun.append(training.state.completed_steps)
        reductions.fail_after(6 if len(begun) < 8 else None)

    training.run(again)
    assert_same(training.outcome(), undisturbed)
    assert training.entered == 9
    # fit builds its metrics by one more call of it, evaluation is traced too.
    assert len(traces) <= 5
    assert scalars(tmp_path / "train", "epoch_loss") == list(range(EPOCHS))
    batches = scalars(tmp_path / "train", "batch_loss")
    assert batches == sorted(set(batches))


def scalars(directory: Path, tag: str) -> list[int]:
    """Steps of the scalars of a run, over all its files, in the order of time."""
    found = [
        (event.wall_time, event.step)
        for path in directory.glob("events.*")
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
        if value.tag == tag
    ]
    return [step for _, step in sorted(found)]


def test_resumes_from_disk(reductions: FailingReductions, undisturbed: Any, tmp_path: Path) -> None:
    first = Training()
    first.state = KerasState(first.model, epoch=0, batch=0, directory=tmp_path)
    first.extra = [Losing("on_train_batch_end", 2 * BATCHES + 4)]
    first.state.sync()
    with pytest.raises(Lost):
        first._fit()
    assert first.state.save_last() is not None
    second = Training()
    second.state = KerasState(second.model, epoch=0, batch=0, directory=tmp_path)
    second.run()
    assert_same(second.outcome(), undisturbed)
    second.state.finished()
    assert not tmp_path.exists()


def test_a_commit_of_another_model(reductions: FailingReductions, tmp_path: Path) -> None:
    training = Training()
    training.state = KerasState(training.model, directory=tmp_path, epoch=0)
    training.state.sync()
    training.state.save_last()
    other = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    with pytest.raises(tfring.TfringError, match="belongs to another model"):
        KerasState(other, directory=tmp_path).sync()


def test_restore_goes_back_to_the_last_commit(reductions: FailingReductions) -> None:
    training = Training()
    training.state.sync()
    training.model.fit(dataset(training.state), epochs=1, verbose=0)
    training.state.commit()
    weights = training.model.get_weights()
    training.model.fit(dataset(training.state), epochs=2, initial_epoch=1, verbose=0)
    assert training.state.completed_steps == 2 * BATCHES
    assert training.state.epoch == 2
    training.state.restore()
    assert training.state.completed_steps == BATCHES
    assert training.state.epoch == 1
    for weight, wanted in zip(training.model.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(weight, wanted)


def test_settings_of_callbacks_are_the_scripts(reductions: FailingReductions) -> None:
    def stopping(patience: int) -> Any:
        return keras.callbacks.EarlyStopping("loss", patience=patience)

    old, new = stopping(2), stopping(5)
    for callback in (old, new):
        callback.on_train_begin()
    memory = CallbackMemory([old])
    old.wait, old.best = 1, 0.25
    CallbackMemory([new], memory.capture())
    assert (new.wait, new.best, new.patience) == (1, 0.25, 5)


def test_callbacks_with_hooks() -> None:
    class Hooked(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.inner = object()
            self.count = 0

        def state_dict(self) -> Any:
            return {"count": self.count}

        def load_state_dict(self, state: Any) -> None:
            self.count = state["count"] * 10

    one, other = Hooked(), Hooked()
    memory = CallbackMemory([one])
    one.count = 3
    CallbackMemory([other], memory.capture())
    assert other.count == 30


def test_backup_and_restore_does_not_go_back(
    reductions: FailingReductions, undisturbed: Any, tmp_path: Path
) -> None:
    training = Training()
    backup = keras.callbacks.BackupAndRestore(str(tmp_path / "backup"))
    log = keras.callbacks.CSVLogger(str(tmp_path / "log.csv"))
    training.extra = [backup, log, Losing("on_train_batch_end", BATCHES + 3)]
    training.run()
    assert_same(training.outcome(), undisturbed)
    lines = (tmp_path / "log.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["epoch", "0", "1", "2", "3"]


@pytest.mark.parametrize("relative", [False, True])
def test_update_callbacks_count_for_any_state(relative: bool) -> None:
    class Plain:
        epoch, batch, commits = 3, 2, 0

        def commit(self) -> None:
            self.commits += 1

    state = Plain()
    x, y = examples()
    classifier().fit(
        x,
        y,
        batch_size=BATCH,
        initial_epoch=0 if relative else 3,
        epochs=2 if relative else 5,
        verbose=0,
        callbacks=[
            tfring.callbacks.UpdateBatchState(state),
            tfring.callbacks.UpdateEpochState(state),
            tfring.callbacks.CommitState(state, batches_per_commit=2),
        ],
    )
    assert (state.epoch, state.batch) == (5, 0)
    assert state.commits == 2 * (BATCHES // 2 + 1)
