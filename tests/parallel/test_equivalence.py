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

    train_in_process_sets()


def train_in_process_sets() -> None:
    """Two sets of ranks train apart, at the same time."""
    import keras
    import numpy
    import tensorflow as tf

    import tfring

    size = tfring.size()
    sets = [range(0, size, 2), range(1, size, 2)]
    added = [tfring.add_process_set(ranks) for ranks in sets]
    own = added[tfring.rank() % 2]
    variable = keras.Variable(numpy.zeros(3, "float32"))
    optimizer = tfring.DistributedOptimizer(keras.optimizers.SGD(1.0), process_set=own)
    optimizer.build([variable])
    step = tf.function(lambda gradient: optimizer.apply([gradient], [variable]))
    with tfring.DistributedGradientTape(tf.GradientTape(), process_set=own) as tape:
        loss = tf.reduce_sum(variable) * tfring.rank()
    mean = sum(own.ranks) / own.size()
    numpy.testing.assert_allclose(tape.gradient(loss, variable), [mean] * 3)
    step(tf.fill([3], float(tfring.rank())))
    numpy.testing.assert_allclose(variable, [-mean] * 3)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("np", [2, 3, 4])
def test_ranks_train_like_one_process(run_ranks, np: int) -> None:
    run_ranks(train_like_one_process, np=np, timeout_s=240.0)
