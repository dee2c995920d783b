"""Randomness on several ranks: the same where it must be, different where it should be."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from tfring import engine


def set_seed(seed: int) -> None:
    """Makes a job reproducible: the same initial weights, but different dropout, on all ranks.

    Python's, NumPy's and TensorFlow's global generators get the same seed on every rank. So
    do the initializers of Keras, and a dataset that is shuffled before it is sharded has one
    order everywhere. What a Keras layer draws while it trains (dropout, noise, augmentation;
    all that uses a `keras.random.SeedGenerator`) differs by rank.

    For random numbers of your own that should differ, use `rank_seed(seed)`.

    Example:

    >>> tfring.init()
    >>> tfring.set_seed(42)
    >>> model = build_model()

    Args:
        seed: A whole number from 0 to 2**32 - 1, the same on every rank. Call it before the
            model is built.

    Raises:
        NotInitializedError: Before `tfring.init()`.
        ValueError: `seed` is out of range.
    """
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed: expected 0 to 2**32 - 1, received {seed}")
    rank = engine.rank()
    keras.utils.set_random_seed(seed)
    _new_generators_differ_by(rank)


def rank_seed(seed: int, rank: int | None = None) -> int:
    """A seed that is another one on each rank.

    Args:
        seed: The same on every rank.
        rank: By default this one.

    Returns:
        A number from 0 to 2**31 - 1; `seed` itself, cut to that range, on rank 0.
    """
    if rank is None:
        rank = engine.rank()
    if rank == 0:
        return seed % 2**31
    digest = hashlib.sha256(f"{seed} {rank}".encode()).digest()
    return int.from_bytes(digest[:4], "little") % 2**31


def seed_states(model: Any) -> list[Any]:
    """The variables with the states of a Keras model's random generators.

    They are among `model.variables`, but not among `model.weights`.
    """
    weights = {id(variable) for variable in model.weights}
    metrics = {id(variable) for metric in model.metrics for variable in metric.variables}
    return [
        variable
        for variable in model.variables
        if id(variable) not in weights | metrics and tuple(variable.shape) == (2,)
    ]


def differ_by_rank(states: Sequence[Any], others: Sequence[Sequence[Any]]) -> None:
    """Changes this rank's seed states that a lower rank has too.

    They are equal when all ranks have loaded them from one checkpoint, or were seeded alike.

    Args:
        states: Variables as of `seed_states`: a seed and a counter.
        others: The values of the same variables on the ranks below this one, by rank.
    """
    rank = len(others)
    for position, state in enumerate(states):
        value = keras.ops.convert_to_numpy(state)
        if any(np.array_equal(value, other[position]) for other in others):
            state.assign(np.array([rank_seed(int(value[0]), rank), value[1]], value.dtype))


def _new_generators_differ_by(rank: int) -> None:
    """From now on a new `SeedGenerator` starts elsewhere than the same one on other ranks."""
    cls = keras.random.SeedGenerator
    plain = getattr(cls.__init__, "tfring_plain", cls.__init__)
    if rank == 0:
        cls.__init__ = plain
        return

    @functools.wraps(plain)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        value = keras.ops.convert_to_numpy(self.state)
        self.state.assign(np.array([rank_seed(int(value[0]), rank), value[1]], value.dtype))

    init.tfring_plain = plain  # type: ignore[attr-defined]
    cls.__init__ = init


def separate(seeds: Sequence[Any], number: int) -> None:
    """Gives seed states streams of their own.

    Args:
        seeds: Of this process.
        number: One that no other process has or had.
    """
    for state in seeds:
        value = keras.ops.convert_to_numpy(state)
        seed = rank_seed(int(value[0]), number)
        state.assign(np.array([seed, value[1]], value.dtype))
