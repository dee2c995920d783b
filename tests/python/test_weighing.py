"""Gradients are weighted once, whichever way they take to the optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfring
from harness import pretend_ranks
from tfring.weighing import weigh_by

# pretend_ranks: the mean of a gradient and three times that gradient.
REDUCED = 2.0


@pytest.fixture(autouse=True)
def pretend(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    pretend_ranks.install(monkeypatch)
    yield


def step(way: str, weight: float | None, *, graph: bool, scaled: bool = False) -> Any:
    """How far a variable moves by a gradient of 1."""
    variable = keras.Variable([10.0], dtype="float32")
    optimizer = keras.optimizers.SGD(1.0, gradient_accumulation_steps=2 if way == "sum" else None)
    if scaled:
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=8.0)
    optimizer = tfring.DistributedOptimizer(optimizer)
    optimizer.build([variable])

    def one() -> None:
        reducing = way == "tape"
        tape = tf.GradientTape()
        if reducing:
            tape = tfring.DistributedGradientTape(tape)
        with tape:
            loss = variable.value[0] * 1.0
            if way != "plain" and not reducing:
                loss = optimizer.scale_loss(loss)
        gradients = tape.gradient(loss, [variable.value])
        if way == "sparse":
            gradients = [tf.IndexedSlices(gradients[0], tf.constant([0]), tf.constant([1]))]
        optimizer.apply(gradients, [variable])

    def weighted() -> None:
        if weight is None:
            one()
        else:
            with weigh_by(tf.constant(weight, tf.float64)):
                one()

    run = tf.function(weighted) if graph else weighted
    for _ in range(2 if way == "sum" else 1):
        run()
    return 10.0 - float(np.asarray(variable)[0])


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("way", ["scale_loss", "plain", "tape", "sum", "sparse"])
def test_weighted_once(way: str, graph: bool) -> None:
    assert step(way, None, graph=graph) == pytest.approx(REDUCED)
    assert step(way, 0.25, graph=graph) == pytest.approx(0.25 * REDUCED)


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
def test_under_loss_scaling(graph: bool) -> None:
    assert step("scale_loss", 0.25, graph=graph, scaled=True) == pytest.approx(0.25 * REDUCED)


def test_nothing_is_added_where_it_is_not_used() -> None:
    optimizer = tfring.DistributedOptimizer("sgd")
    loss = tf.constant(1.0)
    assert optimizer.scale_loss(loss) is loss
