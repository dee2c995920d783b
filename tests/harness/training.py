"""Small trainings on several ranks and the same in one process, for comparison.

Imported by the ranks, not by the test process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfring
from tfring import engine
from tfring.variables import assert_identical, training_state

FEATURES, CLASSES, WORDS = 6, 4, 20


def examples(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features of shape [count, FEATURES], float32, and labels of shape [count], int64."""
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((count, FEATURES)).astype("float32")
    return x, (np.abs(x[:, 0] * 3 + x[:, 1]) % CLASSES).astype("int64")


def sentences(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Word numbers of shape [count, 5], int32, and labels of shape [count], int64."""
    generator = np.random.default_rng(seed)
    words = generator.integers(0, WORDS, (count, 5)).astype("int32")
    return words, (words.sum(1) % CLASSES).astype("int64")


def mine(array: np.ndarray, batch: int) -> np.ndarray:
    """This rank's share: of each `size * batch` rows the rank's own `batch`."""
    size, rank = tfring.size(), tfring.rank()
    steps = array.reshape(-1, size, batch, *array.shape[1:])
    return steps[:, rank].reshape(-1, *array.shape[1:])


def classifier() -> keras.Model:
    """A dense network; the same weights on every call."""
    keras.utils.set_random_seed(1)
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            keras.layers.Dense(16, activation="tanh"),
            keras.layers.Dense(8, activation="tanh"),
            keras.layers.Dense(CLASSES),
        ]
    )


def reader() -> keras.Model:
    """A network with an embedding, whose gradient is sparse."""
    keras.utils.set_random_seed(2)
    return keras.Sequential(
        [
            keras.Input((5,), dtype="int32"),
            keras.layers.Embedding(WORDS, 4),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(CLASSES),
        ]
    )


def loss() -> keras.losses.Loss:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def fit(model: keras.Model, x: np.ndarray, y: np.ndarray, batch: int, epochs: int = 1) -> None:
    """Trains without shuffling."""
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch)
    model.fit(data, epochs=epochs, verbose=0, shuffle=False)


def assert_close(model: keras.Model, reference: keras.Model, rtol: float = 1e-5) -> None:
    """The weights are those of the reference, up to rounding."""
    for weight, other in zip(model.weights, reference.weights, strict=True):
        np.testing.assert_allclose(weight, other, rtol=rtol, atol=1e-6, err_msg=weight.path)


def assert_changed(model: keras.Model, fresh: keras.Model) -> None:
    """Training has changed every trainable weight."""
    for weight, other in zip(model.trainable_weights, fresh.trainable_weights, strict=True):
        assert np.abs(weight.numpy() - other.numpy()).max() > 1e-4, weight.path


def assert_ranks_agree(model: keras.Model) -> None:
    """Weights and optimizer state have the same bits on every rank."""
    assert_identical(training_state(model))


def reductions(work: Callable[[], Any]) -> int:
    """How many allreduce operations ran during some work."""
    before = engine.counters().allreduce_operations
    work()
    return engine.counters().allreduce_operations - before


def compare(
    make_optimizer: Callable[..., Any],
    *,
    make_model: Callable[[], keras.Model] = classifier,
    make_examples: Callable[..., Any] = examples,
    steps: int = 6,
    batch: int = 4,
    micro_steps: int = 1,
    options: dict[str, Any] | None = None,
    wrap: dict[str, Any] | None = None,
    rtol: float = 1e-5,
) -> int:
    """Trains on all ranks and in one process on the same examples; the weights must agree.

    Args:
        make_optimizer: Called with `gradient_accumulation_steps` if `micro_steps` > 1.
        make_model: The same weights on every call.
        make_examples: As `examples`.
        steps: Number of updates.
        batch: Examples of one rank in one micro-step.
        micro_steps: Calls of the optimizer per update, on the ranks.
        options: Of `compile`, on the ranks.
        wrap: Of `DistributedOptimizer`.
        rtol: Relative tolerance.

    Returns:
        The number of allreduce operations.
    """
    x, y = make_examples(steps * micro_steps * batch * tfring.size())
    accumulate = {"gradient_accumulation_steps": micro_steps} if micro_steps > 1 else {}
    model = make_model()
    model.compile(
        tfring.DistributedOptimizer(make_optimizer(**accumulate), **(wrap or {})),
        loss(),
        **(options or {}),
    )
    count = reductions(lambda: fit(model, mine(x, batch), mine(y, batch), batch))
    assert_ranks_agree(model)
    assert_changed(model, make_model())

    if tfring.rank() != 0:  # the weights are the same everywhere: one comparison will do
        return count
    reference = make_model()
    reference.compile(make_optimizer(), loss())
    fit(reference, x, y, batch * micro_steps * tfring.size())
    assert_close(model, reference, rtol)
    return count
