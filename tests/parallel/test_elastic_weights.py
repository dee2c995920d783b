"""Unequal shares: gradients and logs are those of one process with the whole batches."""

from __future__ import annotations

from typing import Any

import pytest


def train(distributed: bool, way: str, samples: int, batch: int, options: dict[str, Any]) -> Any:
    """Three epochs; alone it is plain Keras with whole batches. Weights, and logs of epochs."""
    import keras
    import numpy as np
    import tensorflow as tf

    import tfring
    import tfring.callbacks
    from tfring.elastic import KerasState, Sampler

    class OwnStep(keras.Model):
        """As Keras's guide tells: the loss does not go through the optimizer."""

        def train_step(self, data: Any) -> Any:
            x, y = data
            tape = tf.GradientTape()
            if way == "tape" and distributed:
                tape = tfring.DistributedGradientTape(tape)
            with tape:
                loss = self.compute_loss(y=y, y_pred=self(x, training=True))
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply(gradients, self.trainable_variables)
            for metric in self.metrics:
                if metric.name == "loss":
                    metric.update_state(loss, sample_weight=tf.shape(x)[0])
            return {m.name: m.result() for m in self.metrics}

    keras.utils.set_random_seed(1)
    inputs = keras.Input((6,))
    x = keras.layers.Dense(16, activation="tanh", kernel_regularizer="l2")(inputs)
    outputs = keras.layers.Dense(4)(x)
    model = (keras.Model if way == "fit" else OwnStep)(inputs, outputs)
    optimizer = keras.optimizers.Adam(0.02, gradient_accumulation_steps=options.pop("sum", None))
    if options.pop("scaled", False):
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=64.0)
    if distributed:
        optimizer = tfring.DistributedOptimizer(optimizer)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"] if way == "fit" else None, **options)
    generator = np.random.default_rng(0)
    x = generator.standard_normal((samples, 6)).astype("float32")
    y = (np.abs(x[:, 0] * 3 + x[:, 1]) % 4).astype("int64")
    sampler = Sampler(samples, global_batch_size=batch, seed=3)
    if distributed:
        state = KerasState(model, sampler=sampler, epoch=0)
        state.sync()
        data, steps = sampler.dataset((x, y)), None
        callbacks = [tfring.callbacks.AverageMetrics()]
    else:
        whole = []
        for _ in range(3):
            for rows in sampler.indices(0, 1):
                whole.append((x[rows], y[rows]))
                sampler.advance()
        spec = tf.TensorSpec([None, 6], tf.float32), tf.TensorSpec([None], tf.int64)
        data = tf.data.Dataset.from_generator(lambda: iter(whole), output_signature=spec)
        callbacks = []
        steps = len(whole) // 3
    logs: list[Any] = []
    noting = keras.callbacks.LambdaCallback(on_epoch_end=lambda _, values: logs.append(values))
    model.fit(data, epochs=3, steps_per_epoch=steps, verbose=0, callbacks=[*callbacks, noting])
    return [np.asarray(w) for w in model.weights], logs


def as_alone(way: str, samples: int, batch: int, options: dict[str, Any]) -> Any:
    import numpy as np

    import tfring

    weights, logs = train(True, way, samples, batch, dict(options))
    if tfring.rank() == 0:
        expected, expected_logs = train(False, way, samples, batch, dict(options))
        for weight, other in zip(weights, expected, strict=True):
            np.testing.assert_allclose(weight, other, rtol=1e-4, atol=1e-6)
        for log, other in zip(logs, expected_logs, strict=True):
            for name in other if samples > batch * 3 else ():
                np.testing.assert_allclose(log[name], other[name], rtol=1e-4)
    return True


CASES: list[tuple[str, dict[str, Any]]] = [
    ("fit", {}),
    ("fit", {"jit_compile": True}),
    ("fit", {"run_eagerly": True}),
    ("fit", {"scaled": True}),
    ("fit", {"sum": 2}),
    ("own", {}),
    ("own", {"sum": 2}),
    ("tape", {}),
]


@pytest.mark.parametrize(("way", "options"), CASES, ids=str)
def test_training_is_that_of_one_process(
    warm_ranks: Any, way: str, options: dict[str, Any]
) -> None:
    """29 samples in batches of 8: steps of 8, 8, 7 and 6."""
    assert warm_ranks(as_alone, way, 29, 8, options, np=3) == [True] * 3


def test_more_workers_than_samples(warm_ranks: Any) -> None:
    """The last two steps of an epoch have 2 samples for 3 workers; only logs count one twice."""
    assert warm_ranks(as_alone, "fit", 7, 3, {}, np=3) == [True] * 3
