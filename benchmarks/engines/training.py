"""Training by `model.fit`: with tfring, or each process for itself."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.engines.engine import Array, Engine, Run
from benchmarks.workloads import Workload

# Input shape, batch of a process, classes.
CNN_INPUT, CNN_BATCH, CNN_CLASSES = (32, 32, 3), 32, 10
RESNET_INPUT, RESNET_BATCH, RESNET_CLASSES = (64, 64, 3), 32, 1000


def small_cnn() -> Any:
    """Four convolutions and two dense layers: 1.2 million parameters."""
    import keras
    from keras import layers

    return keras.Sequential(
        [
            keras.Input(CNN_INPUT),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(96, 3, padding="same", activation="relu"),
            layers.Conv2D(96, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(288, activation="relu"),
            layers.Dense(CNN_CLASSES),
        ]
    )


def model_and_batch(name: str) -> tuple[Any, tuple[int, ...], int, int]:
    """A model, its input shape, the batch of a process and the number of classes.

    Args:
        name: "cnn" or "resnet50".
    """
    import keras

    if name == "cnn":
        return small_cnn(), CNN_INPUT, CNN_BATCH, CNN_CLASSES
    model = keras.applications.ResNet50(
        weights=None, input_shape=RESNET_INPUT, classes=RESNET_CLASSES, classifier_activation=None
    )
    return model, RESNET_INPUT, RESNET_BATCH, RESNET_CLASSES


class Training(Engine):
    """Takes steps of a model; `prepare` and `results` are of no use here.

    Args:
        rank: Of processes that train by themselves; None: with tfring.
        size: How many of them there are.
    """

    title = "training"

    def __init__(self, rank: int | None, size: int | None) -> None:
        self._distributed = rank is None
        self.rank, self.size = rank or 0, size or 1

    def join(self) -> None:
        if self._distributed:
            import tfring

            tfring.init()
            self.rank, self.size = tfring.rank(), tfring.size()

    def prepare(self, work: Workload, value: float) -> Run:
        raise NotImplementedError("training takes steps")

    def results(self) -> list[Array]:
        raise NotImplementedError("training has no results")

    def build(self, name: str) -> int:
        """Makes the model and its data; returns the number of its parameters."""
        import keras
        import numpy as np
        import tensorflow as tf

        self._model, shape, batch, classes = model_and_batch(name)
        optimizer: Any = keras.optimizers.SGD(0.001, momentum=0.9)
        self._callbacks: list[Any] = []
        if self._distributed:
            import tfring
            import tfring.callbacks

            optimizer = tfring.DistributedOptimizer(optimizer)
            self._callbacks = [
                tfring.callbacks.BroadcastInitialVariables(),
                tfring.callbacks.AverageMetrics(),
            ]
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self._model.compile(optimizer, loss, metrics=["accuracy"])
        random = np.random.default_rng(self.rank)
        images = random.random((batch, *shape), np.float32)
        labels = random.integers(0, classes, batch)
        dataset = tf.data.Dataset.from_tensors((images, labels)).repeat()
        self._data = dataset.prefetch(1)
        return int(self._model.count_params())

    def steps(self, count: int) -> tuple[float, int]:
        """Trains for `count` + 1 steps.

        Returns:
            Seconds a step of all but the first, which starts things up; and how many
            allreduces tfring has made in this process.
        """
        import keras

        class Clock(keras.callbacks.Callback):  # type: ignore[misc]
            """When each step ended."""

            def __init__(self) -> None:
                super().__init__()
                self.ends: list[float] = []

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                self.ends.append(time.perf_counter())

        clock = Clock()
        self._model.fit(
            self._data,
            epochs=1,
            steps_per_epoch=count + 1,
            verbose=0,
            callbacks=[*self._callbacks, clock],
        )
        reductions = 0
        if self._distributed:
            from tfring import engine

            reductions = engine.counters().allreduce_operations
        return (clock.ends[-1] - clock.ends[0]) / count, reductions

    def leave(self) -> None:
        if self._distributed:
            import tfring

            tfring.shutdown()
