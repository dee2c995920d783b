"""Orders are permutations that look random and never change."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tfring.elastic.sample_order import SampleOrder


def order(samples: int, seed: int = 1, epoch: int = 0) -> np.ndarray:
    return SampleOrder(samples, seed=seed, epoch=epoch)[0:samples]


@pytest.mark.parametrize("samples", [*range(1, 40), 1000, 4097])
def test_an_order_is_a_permutation(samples: int) -> None:
    assert sorted(order(samples)) == list(range(samples))


def test_an_order_of_its_own_for_each_seed_and_epoch() -> None:
    orders = [order(1000), order(1000, epoch=1), order(1000, seed=2), order(1000, 2, 1)]
    for index, one in enumerate(orders):
        assert np.array_equal(one, orders[index])
        for other in orders[:index]:
            assert np.mean(one == other) < 0.01


def test_an_order_is_the_same_for_ever() -> None:
    """Workers may have different releases of NumPy, and a commit may be old."""
    assert order(10, seed=3, epoch=7).tolist() == [7, 3, 1, 9, 5, 4, 0, 2, 8, 6]
    assert order(5, seed=-1).tolist() == [0, 3, 4, 2, 1]
    large = SampleOrder(10**12, seed=1, epoch=0)[10**11 : 10**11 + 3]
    assert large.tolist() == [217832637550, 944942727585, 200158579998]


def test_pieces_are_those_of_the_whole() -> None:
    whole = order(100)
    pieces = SampleOrder(100, seed=1, epoch=0)
    assert np.array_equal(np.concatenate([pieces[i : i + 7] for i in range(0, 100, 7)]), whole)


def test_without_shuffling_samples_are_in_their_own_order() -> None:
    plain = SampleOrder(10, seed=1, epoch=3, shuffle=False)
    assert plain[3:7].tolist() == [3, 4, 5, 6]
    assert plain[3:7].dtype == np.int64


def test_every_permutation_of_a_few_samples_is_equally_likely() -> None:
    counts = Counter(tuple(order(4, seed, epoch)) for seed in range(40) for epoch in range(60))
    assert len(counts) == 24
    assert all(60 <= count <= 140 for count in counts.values()), counts


def test_neighbours_are_not_related() -> None:
    samples = order(20_000)
    assert abs(np.corrcoef(samples[:-1], samples[1:])[0, 1]) < 0.03
    assert abs(np.corrcoef(samples, np.arange(20_000))[0, 1]) < 0.03
    # Classes that lie one after the other are found mixed in every batch of a size.
    tenth = [np.count_nonzero(batch < 2000) for batch in samples.reshape(-1, 500)]
    assert min(tenth) > 25
    assert max(tenth) < 80
