"""Seeds as each of several ranks would set them."""

from __future__ import annotations

import random
from collections.abc import Iterator

import keras
import numpy as np
import pytest

import tfring
from tfring import engine
from tfring.seed import differ_by_rank, rank_seed, seed_states


@pytest.fixture(autouse=True)
def restore(monkeypatch) -> Iterator[None]:
    monkeypatch.setattr(engine, "rank", lambda: 0)
    yield
    monkeypatch.setattr(engine, "rank", lambda: 0)
    tfring.set_seed(0)


def build() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(5),
            keras.layers.Dropout(0.5),
            keras.layers.BatchNormalization(),
            keras.layers.GaussianNoise(1.0, seed=7),
        ]
    )


def as_rank(monkeypatch, rank: int, seed: int = 3) -> tuple[list[np.ndarray], np.ndarray]:
    monkeypatch.setattr(engine, "rank", lambda: rank)
    tfring.set_seed(seed)
    model = build()
    return model.get_weights(), np.asarray(model(np.ones((4, 6)), training=True))


def test_the_same_weights_but_another_dropout(monkeypatch) -> None:
    ranks = [as_rank(monkeypatch, rank) for rank in (0, 1, 2)]
    for weights, output in ranks[1:]:
        for own, first in zip(weights, ranks[0][0], strict=True):
            np.testing.assert_array_equal(own, first)
        assert (output != ranks[0][1]).any()
    assert (ranks[1][1] != ranks[2][1]).any()


def test_it_is_reproducible(monkeypatch) -> None:
    for rank in (0, 1):
        first, again = (as_rank(monkeypatch, rank) for _ in range(2))
        np.testing.assert_array_equal(first[1], again[1])
        other = as_rank(monkeypatch, rank, seed=4)
        assert (first[0][0] != other[0][0]).any()


def test_global_generators_are_the_same_everywhere(monkeypatch) -> None:
    import tensorflow as tf

    drawn = []
    for rank in (0, 1):
        monkeypatch.setattr(engine, "rank", lambda rank=rank: rank)
        tfring.set_seed(5)
        shuffled = list(tf.data.Dataset.range(20).shuffle(20).as_numpy_iterator())
        drawn.append((random.random(), np.random.random(), shuffled))
    assert drawn[0] == drawn[1]


def test_rank_seeds_differ() -> None:
    seeds = [rank_seed(seed, rank) for seed in range(20) for rank in range(50)]
    assert len(set(seeds)) == 1000
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert rank_seed(3, 0) == rank_seed(3) == 3


def test_seed_states_are_found_and_made_to_differ() -> None:
    model = build()
    model.compile("sgd", "mse", metrics=["mae"])
    model.fit(np.ones((4, 6)), np.ones((4, 5)), verbose=0)
    states = seed_states(model)
    assert len(states) == 2
    values = [np.asarray(state) for state in states]
    other = [values[0], values[1] + 1]  # of rank 0: the first is the same, the second is not
    differ_by_rank(states, [other])
    assert np.asarray(states[0])[0] == rank_seed(int(values[0][0]), 1)
    assert np.asarray(states[0])[1] == values[0][1]
    np.testing.assert_array_equal(np.asarray(states[1]), values[1])
    differ_by_rank(states, [])
    np.testing.assert_array_equal(np.asarray(states[1]), values[1])


def test_seeds_out_of_range_are_refused() -> None:
    for seed in (-1, 2**32):
        with pytest.raises(ValueError, match="seed: expected 0 to"):
            tfring.set_seed(seed)
