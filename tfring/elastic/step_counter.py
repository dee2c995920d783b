"""How many steps a model has completed, counted where its variables change.

A Python counter can't tell whether the step that has just failed changed the variables: the
failure may come from the next step of the same execution (`steps_per_execution`), from a
metric, from a callback. So the count is a variable, and it changes with the others, behind the
gate that waits for all gradients (`ReducingOptimizer.apply`). A step that loss scaling skips is
a completed one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from tfring.elastic.gated_optimizer import gate
from tfring.reducing_optimizer import is_distributed


class Step:
    """One step that is being traced, or run eagerly.

    Attributes:
        updates: How often an optimizer has applied gradients in it so far.
        whole: A variable that says whether it takes several updates, so that its first must
            not count; it is set with the second. None: it takes one.
    """

    def __init__(self, whole: tf.Variable | None) -> None:
        self.updates = 0
        self.whole = whole


class StepCounter:
    """Counts completed steps in the graph.

    Attributes:
        completed: The number, an int64 `tf.Variable`.
    """

    def __init__(self) -> None:
        with tf.init_scope(), tf.device("CPU:0"):
            self.completed = tf.Variable(
                0, dtype=tf.int64, trainable=False, name="tfring_completed_steps"
            )
        self._open = threading.local()

    def follow(self, optimizer: Any) -> None:
        """Lets an optimizer count; one that reduces nothing itself gets a gate to do it in."""
        if not is_distributed(optimizer):
            gate(optimizer)
        object.__setattr__(optimizer, "tfring_on_update", self._on_update)

    @contextmanager
    def step(self, whole: tf.Variable | None) -> Iterator[Step]:
        """What is applied within it is one step, however many optimizers do it."""
        before = getattr(self._open, "step", None)
        step = self._open.step = Step(whole)
        try:
            yield step
        finally:
            self._open.step = before

    @tf.autograph.experimental.do_not_convert
    def _on_update(self) -> None:
        step: Step | None = getattr(self._open, "step", None)
        first: Any = 1
        if step is not None:
            step.updates += 1
            if step.updates > 1:
                if step.whole is not None:
                    with tf.init_scope():
                        step.whole.assign(True)
                return
            if step.whole is not None:
                first = 1 - tf.cast(step.whole, tf.int64)
        self.completed.assign_add(tf.cast(first, tf.int64), read_value=False)
