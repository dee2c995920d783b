"""All ranks begin alike, and take equally many steps."""

from __future__ import annotations

from typing import Any

import pytest


def sequential(units: int = 4) -> Any:
    import keras

    return keras.Sequential(
        [
            keras.layers.Dense(units, activation="relu"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(1),
        ]
    )


def subclassed() -> Any:
    import keras

    class Model(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.first = keras.layers.Dense(4)
            self.norm = keras.layers.BatchNormalization()
            self.second = keras.layers.Dense(1)

        def call(self, inputs, training=False):
            x = self.first(inputs["a"]) + inputs["b"]
            return self.second(self.norm(x, training=training))

    return Model()


def batches(count: int, *, names: bool = False, rows: int = 2) -> Any:
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(3)
    x = rng.standard_normal((count * rows, 3)).astype(np.float32)
    y = x.sum(axis=1, keepdims=True)
    inputs = {"a": x, "b": x[:, :1]} if names else x
    return tf.data.Dataset.from_tensor_slices((inputs, y)).batch(rows)


def watcher() -> Any:
    """Notes digests of the weights at the begin and the end of the training's batches."""
    import keras

    from tfring.variables import weights_digest

    class Watch(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.after: list[str] = []

        def on_train_batch_end(self, batch, logs=None):
            self.after.append(
                weights_digest([*self.model.weights, *self.model.optimizer.variables])
            )

    return Watch()


def begin_with_the_root(kind: str, root: int, built: bool) -> tuple[Any, ...]:
    import keras

    import tfring
    from tfring.variables import weights_digest

    rank = tfring.rank()
    keras.utils.set_random_seed(100 + rank)
    model = subclassed() if kind == "subclassed" else sequential()
    data = batches(4, names=kind == "subclassed")
    if built:
        model(next(iter(data))[0])
    optimizer = keras.optimizers.Adam(0.01 * (rank + 1))
    model.compile(tfring.DistributedOptimizer(optimizer), "mse")
    own = weights_digest(model.weights) if built else ""
    if built and rank == root:
        optimizer.build(model.trainable_variables)
        optimizer.iterations.assign(7)
    watch = watcher()
    model.fit(
        data,
        epochs=2,
        callbacks=[tfring.callbacks.BroadcastInitialVariables(root), watch],
        verbose=0,
    )
    assert model.train_function is not None
    plain = getattr(model.train_function, "__self__", None) is None
    rate = float(model.optimizer.learning_rate.numpy())
    return own, watch.after, int(model.optimizer.iterations.numpy()), rate, plain


@pytest.mark.parametrize("kind", ["sequential", "subclassed"])
@pytest.mark.parametrize("built", [True, False])
def test_weights_and_optimizer_are_the_roots(
    warm_ranks, ranks: int, kind: str, built: bool
) -> None:
    root = ranks - 1
    by_rank = warm_ranks(begin_with_the_root, kind, root, built)
    assert not built or len({own for own, *_ in by_rank}) == ranks
    # Identical after the very first step, so they were before it.
    assert all(answer[1:] == by_rank[0][1:] for answer in by_rank)
    _, after, iterations, rate, plain = by_rank[0]
    assert len(after) == 8 and len(set(after)) == 8
    assert iterations == (15 if built else 8)
    assert rate == pytest.approx(0.01 * (root + 1))
    assert plain


def dropout_differs() -> Any:
    import keras
    import numpy as np

    import tfring

    keras.utils.set_random_seed(3)  # the same on every rank: so would the masks be
    model = sequential()
    model.compile(tfring.DistributedOptimizer("sgd"), "mse")
    model.build((None, 3))
    callbacks = [tfring.callbacks.BroadcastInitialVariables()]
    model.fit(batches(2), callbacks=callbacks, verbose=0)
    state = model.layers[1].seed_generator.state.numpy()
    model.fit(batches(2), callbacks=callbacks, verbose=0)
    again = model.layers[1].seed_generator.state.numpy()
    assert again[0] == state[0] and again[1] == state[1] + 2
    mask = model.layers[1](np.ones((4, 50)), training=True).numpy()
    return state.tolist(), mask.tolist()


def test_dropout_differs_by_rank(warm_ranks, ranks: int) -> None:
    by_rank = warm_ranks(dropout_differs)
    assert len({str(state) for state, _ in by_rank}) == ranks
    assert len({str(mask) for _, mask in by_rank}) == ranks


def gan() -> Any:
    import keras

    import tfring
    from tfring.variables import weights_digest

    class Gan(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.one = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
            self.two = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])

        def compile(self, first, second):
            super().compile(optimizer=None)
            self.first, self.second = first, second

        def train_step(self, data):
            import tensorflow as tf

            x, y = data
            with tf.GradientTape(persistent=True) as tape:
                a = self.one(x)
                loss_one = tf.reduce_mean((self.two(a) - y) ** 2)
                loss_two = tf.reduce_mean((self.two(a) + y) ** 2)
            for loss, part, optimizer in (
                (loss_one, self.one, self.first),
                (loss_two, self.two, self.second),
            ):
                weights = part.trainable_variables
                optimizer.apply(tape.gradient(loss, weights), weights)
            return {"one": loss_one}

    keras.utils.set_random_seed(tfring.rank())
    model = Gan()
    model.compile(
        tfring.DistributedOptimizer(keras.optimizers.Adam(0.01)),
        tfring.DistributedOptimizer(keras.optimizers.SGD(0.01 + tfring.rank())),
    )
    model.second.build(model.two.trainable_variables)
    model.fit(batches(3), callbacks=[tfring.callbacks.BroadcastInitialVariables()], verbose=0)
    state = [*model.weights, *model.first.variables, *model.second.variables]
    return weights_digest(state)


def test_two_optimizers_and_a_model_that_is_never_called(warm_ranks) -> None:
    assert len(set(warm_ranks(gan))) == 1


def what_cannot_work(kind: str) -> str:
    import keras

    import tfring

    rank = tfring.rank()
    optimizer = tfring.DistributedOptimizer("sgd")
    model = sequential()
    data = batches(3)
    if kind == "not distributed":
        optimizer = "sgd"
    elif kind == "other shape":
        model = sequential(4 + rank)
    elif kind == "more layers":
        model = sequential()
        if rank:
            model.add(keras.layers.Dense(1))
    elif kind == "can't be built":

        class Bad(keras.Model):
            def call(self, x):
                raise ZeroDivisionError("in call")

        model = Bad()
    elif kind == "late":

        class Late(keras.Model):
            def __init__(self):
                super().__init__()
                self.early = keras.layers.Dense(1)
                self.late = keras.layers.Dense(1)

            def call(self, x, training=None):
                return self.late(x) if training else self.early(x)

        model = Late()
        model(next(iter(data))[0])
    model.compile(optimizer, "mse")
    try:
        model.fit(data, callbacks=[tfring.callbacks.BroadcastInitialVariables()], verbose=0)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("not distributed", "InvalidArgumentError: .*does not reduce gradients"),
        (
            "other shape",
            r"MismatchError: the ranks have different models: variable 0 is .*\(3, 4\)",
        ),
        ("more layers", "MismatchError: the ranks have different models: variable 4 is "),
        ("can't be built", "InvalidArgumentError: .*is not built, and building it .*in call"),
        ("late", "InvalidArgumentError: .*has made weights in its first training step.*dense"),
    ],
)
def test_what_cannot_work_is_an_error_on_every_rank(warm_ranks, ranks, kind, message) -> None:
    import re

    if ranks < 2:
        pytest.skip("needs two ranks")
    for answer in warm_ranks(what_cannot_work, kind):
        assert re.match(message, answer, re.DOTALL), answer


def fit_unequal(known: bool, at_once: int, epochs: int) -> tuple[Any, ...]:
    import keras

    import tfring
    from tfring.variables import weights_digest

    keras.utils.set_random_seed(tfring.rank())
    data = batches(7 if tfring.rank() else 10)
    if not known:
        data = data.filter(lambda *_: True)
    model = sequential()
    model.compile(
        tfring.DistributedOptimizer(keras.optimizers.SGD(0.01, momentum=0.9)),
        "mse",
        steps_per_execution=at_once,
    )
    warmup = tfring.callbacks.LearningRateWarmup(0.01, warmup_epochs=1)
    callbacks = [
        tfring.callbacks.BroadcastInitialVariables(),
        *([warmup] if known else []),
        tfring.callbacks.AverageMetrics(),
    ]
    history = model.fit(data, epochs=epochs, callbacks=callbacks, verbose=0).history
    digest = weights_digest([*model.weights, *model.optimizer.variables])
    return int(model.optimizer.iterations.numpy()), digest, history


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("at_once", [1, 3])
def test_unequal_numbers_of_batches_do_not_hang(warm_ranks, ranks, known, at_once) -> None:
    if ranks < 2:
        pytest.skip("needs two ranks")
    by_rank = warm_ranks(fit_unequal, known, at_once, 3)
    assert all(answer == by_rank[0] for answer in by_rank)
    assert by_rank[0][0] == 21


def fail_and_fit_again() -> int:
    import keras

    import tfring

    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            raise KeyboardInterrupt

    model = sequential()
    model.compile(tfring.DistributedOptimizer("sgd"), "mse")
    data = batches(7 if tfring.rank() else 10)
    begin = tfring.callbacks.BroadcastInitialVariables
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            model.fit(data, callbacks=[begin(), Stop()], verbose=0)
    model.fit(data, callbacks=[begin()], verbose=0)
    assert getattr(model.train_function, "__self__", None) is None
    return int(model.optimizer.iterations.numpy())


def test_a_training_that_failed_leaves_nothing_behind(warm_ranks, ranks: int) -> None:
    expected = 9 if ranks > 1 else 12
    assert warm_ranks(fail_and_fit_again) == [expected] * ranks


def fit_as_on_a_machine_with_gpus():
    import warnings
    from unittest import mock

    import keras
    import numpy as np
    import tensorflow as tf

    import tfring
    from tfring.variables import weights_digest

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(tfring.DistributedOptimizer("sgd"), loss="mse", jit_compile=True)
    x = np.random.default_rng(tfring.rank()).normal(size=(8, 3)).astype(np.float32)
    begin = tfring.callbacks.BroadcastInitialVariables()
    with (
        mock.patch.object(tf.config, "list_logical_devices", lambda kind=None: ["a device"]),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        model.fit(x, x[:, :2], batch_size=4, epochs=1, callbacks=[begin], verbose=0)
    warned = any("compiles for a GPU" in str(warning.message) for warning in caught)
    return warned, model.jit_compile, weights_digest(model.weights)


def test_xla_is_left_where_it_has_no_collectives(warm_ranks, ranks):
    results = warm_ranks(fit_as_on_a_machine_with_gpus)
    assert [warned for warned, _, _ in results] == [True] + [False] * (ranks - 1)
    assert not any(jit_compile for _, jit_compile, _ in results)
    assert len({digest for _, _, digest in results}) == 1
