"""The order of an epoch's samples: a permutation that is computed piece by piece.

A generalised Feistel network: a place is a pair (left, right) in Z_a x Z_b, and each round adds
to one half a pseudo-random function of the other. That is a bijection whatever the function is.
a x b is hardly more than the number of samples; a result beyond it goes through the network
again, until it is one. (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002,
section 5.)

So nothing is held, however many samples there are, and a worker that joins in the middle of an
epoch has its samples at once.
"""

from __future__ import annotations

import math

import numpy as np

_ROUNDS = 8


class SampleOrder:
    """A permutation of the samples that depends on nothing but the arguments.

    Not by NumPy's generators, which may differ from release to release.

    Example:

    >>> SampleOrder(10, seed=3, epoch=7)[0:10]
    array([7, 3, 1, 9, 5, 4, 0, 2, 8, 6])

    Args:
        samples: How many there are.
        seed, epoch: Integers that select the order.
        shuffle: False: the samples are in their own order.
    """

    def __init__(self, samples: int, *, seed: int, epoch: int, shuffle: bool = True) -> None:
        self.samples = samples
        self._shuffle = shuffle
        self._left = np.uint64(max(1, math.isqrt(samples - 1) + 1))
        self._right = np.uint64(-(-samples // int(self._left)))
        key = _mixed(_mixed(np.uint64(seed % 2**64)) ^ np.uint64(epoch % 2**64))
        self._keys = [_mixed(key ^ np.uint64(number + 1)) for number in range(_ROUNDS)]

    def __getitem__(self, places: slice) -> np.ndarray:
        """The samples at some places of the order, int64."""
        first, last, _ = places.indices(self.samples)
        result = np.arange(first, last, dtype=np.uint64)
        if self._shuffle:
            result = self._permuted(result)
            while len(outside := np.flatnonzero(result >= self.samples)):
                result[outside] = self._permuted(result[outside])
        return result.astype(np.int64)

    def _permuted(self, places: np.ndarray) -> np.ndarray:
        left, right = places % self._left, places // self._left
        for number, key in enumerate(self._keys):
            if number % 2:
                right = (right + (_mixed(left ^ key) >> np.uint64(1))) % self._right
            else:
                left = (left + (_mixed(right ^ key) >> np.uint64(1))) % self._left
        return left + self._left * right


def _mixed(values: np.ndarray | np.uint64) -> np.ndarray:
    """SplitMix64's finaliser: every bit of the result depends on every bit of the value."""
    with np.errstate(over="ignore"):
        mixed = np.asarray(values, np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(mixed ^ (mixed >> np.uint64(31)))
