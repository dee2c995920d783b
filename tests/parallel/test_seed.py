"""One seed: the same model, but other random numbers on each rank."""

from __future__ import annotations

from typing import Any


def draw() -> tuple[Any, ...]:
    import keras
    import numpy as np

    import tfring
    from tfring.variables import weights_digest

    tfring.set_seed(42)
    model = keras.Sequential(
        [keras.Input((16, 16, 1)), keras.layers.RandomTranslation(0.4, 0.4), keras.layers.Flatten()]
    )
    model.add(keras.layers.Dense(4))
    model.add(keras.layers.Dropout(0.5))
    x = np.random.random((4, 16, 16, 1))
    moved = model.layers[0](x, training=True).numpy().tobytes()
    dropped = model.layers[-1](np.ones((8, 8)), training=True).numpy().tobytes()
    tfring.set_seed(0)
    return weights_digest(model.weights), x.tobytes(), moved, dropped


def test_one_model_many_dropouts(warm_ranks, ranks: int) -> None:
    first = warm_ranks(draw)
    weights, data, moved, dropped = map(set, zip(*first, strict=True))
    assert (len(weights), len(data), len(moved), len(dropped)) == (1, 1, ranks, ranks)
    assert warm_ranks(draw) == first
