"""Batches of a sampler, for `fit` and for loops of one's own, from all kinds of sources."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfring
import tfring.callbacks
from tfring.elastic import KerasState, Sampler
from tfring.errors import InvalidArgumentError

X = np.arange(10, dtype=np.float32).reshape(10, 1)
Y = np.arange(10) * 10


@pytest.fixture(autouse=True)
def job() -> Iterator[None]:
    tfring.init()
    yield
    tfring.shutdown()


def sampler(samples: int = 10, batch_size: int = 4, **options: Any) -> Sampler:
    return Sampler(samples, batch_size=batch_size, shuffle=False, **options)


def batches(dataset: tf.data.Dataset) -> list[Any]:
    return list(dataset.as_numpy_iterator())


class Squares:
    """Samples that are computed when they are asked for."""

    def __init__(self) -> None:
        self.meeting: threading.Barrier | None = None

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> dict[str, Any]:
        if self.meeting is not None:
            self.meeting.wait(20)
        return {"value": np.full((2, 3), index, np.float32), "square": index**2}


# ---- Sources -------------------------------------------------------------------------------


def test_an_array() -> None:
    assert [b[:, 0].tolist() for b in batches(sampler().dataset(X))] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9],
    ]


@pytest.mark.parametrize("source", [(X, Y), [X, Y], (X, Y.tolist())], ids=["tuple", "list", "rows"])
def test_several_arrays(source: Any) -> None:
    dataset = sampler().dataset(source)
    assert [spec.shape.as_list() for spec in dataset.element_spec] == [[None, 1], [None]]
    for x, y in batches(dataset):
        assert (x[:, 0] * 10).tolist() == y.tolist()


def test_a_structure() -> None:
    dataset = sampler().dataset(({"a": X, "b": tf.constant(X)}, Y))
    features, labels = batches(dataset)[2]
    assert features["a"].tolist() == features["b"].tolist() == [[8], [9]]
    assert labels.tolist() == [80, 90]


@pytest.mark.parametrize("kind", [str, Path])
def test_files_are_loaded_and_augmented(tmp_path: Path, kind: Any) -> None:
    names = [kind(tmp_path / f"{number}.txt") for number in range(10)]
    for number, name in enumerate(names):
        Path(name).write_text(str(number))

    def load(name: tf.Tensor, label: tf.Tensor) -> Any:
        return tf.strings.to_number(tf.io.read_file(name)), label

    def augment(value: tf.Tensor, label: tf.Tensor) -> Any:
        return value + 0.5, label

    dataset = sampler().dataset((names, Y), load=load, augment=augment)
    assert [b[0].tolist() for b in batches(dataset)][1:] == [[4.5, 5.5, 6.5, 7.5], [8.5, 9.5]]
    assert [b[1].tolist() for b in batches(dataset)][2] == [80, 90]


def test_an_indexable_source() -> None:
    dataset = sampler().dataset(Squares())
    last = batches(dataset)[2]
    assert last["square"].tolist() == [64, 81]
    assert last["value"].shape == (2, 2, 3)
    assert dataset.element_spec["value"].shape.as_list() == [None, 2, 3]


def test_several_threads_ask_an_indexable_source() -> None:
    """The five samples of a batch wait for each other."""
    source = Squares()
    dataset = sampler(batch_size=5).dataset(source)
    source.meeting = threading.Barrier(5)
    assert [b["square"].tolist() for b in batches(dataset)][1] == [25, 36, 49, 64, 81]


@pytest.mark.parametrize("source", [X[:9], (X, Y[:9]), np.float32(1), [1, 2, 3]], ids=str)
def test_another_number_of_samples(source: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="expected 10 samples"):
        sampler().dataset(source)


# ---- One dataset for all generations -------------------------------------------------------


def test_the_same_source_gives_the_same_dataset() -> None:
    one = sampler()

    def make(offset: int = 1) -> tf.data.Dataset:
        return one.dataset((X, Y), augment=lambda x, y: (x + offset, y))

    dataset = make()
    assert make() is dataset
    assert make(offset=2) is not dataset
    assert one.dataset((X, Y)) is not dataset
    assert one.dataset({"x": X, "y": Y}).element_spec.keys() == {"x", "y"}
    assert one.dataset({"y": X, "x": Y}).element_spec["x"].dtype == tf.int64


def test_a_graph_is_traced_once_for_all_sizes_of_batches() -> None:
    traces = []

    @tf.function(reduce_retracing=True)
    def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        traces.append(x.shape)
        return tf.reduce_sum(x)

    for x, y in sampler().dataset((X, Y)):
        step(x, y)
    assert [shape.as_list() for shape in traces] == [[4, 1], [None, 1]]


def test_it_is_as_long_as_a_whole_epoch() -> None:
    one = sampler()
    dataset = one.dataset(X)
    assert len(dataset) == 3
    next(iter(dataset))
    one.advance(2)
    assert len(dataset) == 3
    assert len(batches(dataset)) == 1


# ---- fit -----------------------------------------------------------------------------------


class Seen(keras.callbacks.Callback):
    """What `fit` takes."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[int]] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.batches.append([])

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.batches[-1].append(batch)


@pytest.mark.parametrize("begin", [0, 2, 3])
def test_fit_takes_the_rest_of_an_epoch_and_then_whole_ones(begin: int) -> None:
    """Without a warning, and with the same number of batches known to all callbacks."""
    one = sampler()
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(tfring.DistributedOptimizer("sgd"), "mse")
    state = KerasState(model, sampler=one, epoch=0, batch=0)
    state.sync()
    seen, first = Seen(), Seen()
    dataset = one.dataset((X / 10, Y / 100))

    class Fail(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch + 1 == begin:
                raise ConnectionError

    if begin:
        with pytest.raises(ConnectionError):
            model.fit(dataset, epochs=3, verbose=0, callbacks=[first, Fail()])
        state.recover()
        state.sync()
        assert (state.epoch, state.batch, one.position) == (0, begin, [0, 0, 8, 0][begin])
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Your input ran out of data")
        model.fit(
            dataset,
            epochs=3,
            initial_epoch=state.epoch,
            verbose=0,
            callbacks=[seen, tfring.callbacks.BroadcastInitialVariables()],
        )
    before = [list(range(begin))] if begin else []  # callbacks go on with what they remember
    assert seen.batches == [*before, list(range(3 - begin)), [0, 1, 2], [0, 1, 2]]
    assert seen.params["steps"] == 3
    assert (one.epoch, one.position, state.epoch) == (3, 0, 3)
    assert state.completed_steps == 9
