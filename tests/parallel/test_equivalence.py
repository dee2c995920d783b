"""N ranks with batch b train the weights of one process with batch N*b."""

from __future__ import annotations

import pytest

STEPS = 20


def train_like_one_process() -> None:
    import keras

    from harness import training

    optimizers = {
        "SGD": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
        "Adam": lambda: keras.optimizers.Adam(0.01),
        "AdamW": lambda: keras.optimizers.AdamW(0.01, weight_decay=0.01, global_clipnorm=0.5),
    }
    for make_optimizer in optimizers.values():
        count = training.compare(make_optimizer, steps=STEPS, batch=8)
        assert count == STEPS


@pytest.mark.parametrize("np", [2, 3, 4])
def test_ranks_train_like_one_process(run_ranks, np: int) -> None:
    run_ranks(train_like_one_process, np=np)
