"""Loops that all ranks leave together."""

from __future__ import annotations

from typing import Any

import pytest


def loop(lengths: list[int]) -> dict[str, Any]:
    import numpy as np
    import tensorflow as tf

    import tfring

    rank = tfring.rank()
    length = lengths[rank % len(lengths)]
    dataset = tf.data.Dataset.range(length)
    seen = {
        "dataset": [int(n) for n in tfring.data.in_step(dataset)],
        "list": list(tfring.data.in_step(list(range(length)))),
        "generator": list(tfring.data.in_step(n for n in range(length))),
        "arrays": [len(a) for a in tfring.data.in_step(np.ones((length, rank + 1)))],
    }
    nested = []
    for outer in tfring.data.in_step(range(length), name="outer"):
        for inner in tfring.data.in_step(range(outer + 1), name="inner"):
            nested.append((outer, inner))
            if inner == 1:
                break
    return {**seen, "nested": nested}


@pytest.mark.parametrize("lengths", [[4, 4], [5, 3], [0, 3], [0, 0]])
def test_all_stop_with_the_shortest(warm_ranks, ranks: int, lengths: list[int]) -> None:
    shortest = min(lengths[:ranks])
    for rank, seen in enumerate(warm_ranks(loop, lengths)):
        assert seen["dataset"] == seen["list"] == seen["generator"] == list(range(shortest))
        assert seen["arrays"] == [rank + 1] * shortest
        assert len(seen["nested"]) == sum(min(2, outer + 1) for outer in range(shortest))
