"""Finds the best size of a bucket while training goes on; see docs/autotune.md.

A traced step has its buckets fixed, so each size is tried in a function of its own: it is
traced once per size, and switching between sizes then costs nothing. Once a size has been
chosen the other functions are given up.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfring import bucket_size, engine, objects
from tfring.arrays import allreduce_arrays
from tfring.bucket_search import BucketSearch, Outcome
from tfring.monitoring.timeline.recording import message
from tfring.reduce_op import ReduceOp

MIB = 2**20
# Besides the one to begin with.
SIZES = (MIB, 4 * MIB, 12 * MIB, 64 * MIB)

Function = Callable[..., Any]


class TunedSteps:
    """A training step that finds the best size of a bucket in its first calls.

    All ranks make one at the same time and call it equally often.

    Args:
        make: Makes a function of the step that has not been traced.
        first: One that may have been traced, with the size to begin with; default: a new one.
        seconds: The clock.

    Attributes:
        outcome: How the search has ended; None before.
    """

    def __init__(
        self,
        make: Callable[[], Function],
        first: Function | None = None,
        *,
        seconds: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._make = make
        self._start = bucket_size.current(engine.config().bucket_bytes)
        self._functions: dict[int, Function] = {self._start: first or make()}
        self._seconds = seconds
        self._search: BucketSearch[int] | None = None
        self.outcome: Outcome[int] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Takes a step."""
        if self.outcome is not None:
            return self.function(*args, **kwargs)
        if self._search is None:
            # This step shows which gradients there are.
            result = self.function(*args, **kwargs)
            self._search = BucketSearch(_candidates(self._start), _sum_over_ranks)
        else:
            size = self._search.setting
            bucket_size.use(size)
            if size not in self._functions:
                self._functions[size] = self._make()
            began = self._seconds()
            result = self._functions[size](*args, **kwargs)
            self._search.observe(self._seconds() - began)
        if self._search.outcome is not None:
            self._end(self._search.outcome)
        return result

    @property
    def function(self) -> Function:
        """The step, with the size that has been chosen or, before that, the first."""
        return self._functions[self._start if self.outcome is None else self.outcome.chosen]

    def stop(self) -> Function:
        """Ends the search, if it has not ended, with the size that it began with."""
        if self.outcome is None:
            reason = "training ended before the search did"
            self._end(Outcome(self._start, self._start, reason=reason))
        return self.function

    def _end(self, outcome: Outcome[int]) -> None:
        self.outcome = outcome
        bucket_size.use(outcome.chosen)
        self._functions = {outcome.chosen: self._functions[outcome.chosen]}
        text = f"autotune: {describe(outcome)}"
        message(text)
        if engine.rank() == 0:
            print(f"[tfring] {text}", file=sys.stderr, flush=True)


def autotuned_function(function: Function, **options: Any) -> TunedSteps:
    """A `tf.function` that finds the best size of a bucket in its first calls.

    For training loops of one's own; in `fit` the setting `autotune` does the same. `function`
    must reduce its gradients by `DistributedOptimizer` or `DistributedGradientTape` without an
    explicit `bucket_bytes`. It is traced once for each of up to five sizes.

    Example:

    >>> @tfring.autotuned_function
    ... def train_step(x, y):
    ...     with tf.GradientTape() as tape:
    ...         loss = loss_fn(y, model(x, training=True))
    ...     gradients = tape.gradient(loss, model.trainable_variables)
    ...     optimizer.apply(gradients, model.trainable_variables)
    ...     return loss

    Args:
        function: One training step, in Python. All ranks call it equally often.
        **options: As for `tf.function`.

    Returns:
        A function of the same arguments. Its attribute `outcome` says what was chosen.

    Raises:
        NotInitializedError: Before `tfring.init()`.
    """
    return TunedSteps(functools.partial(tf.function, function, **options))


def describe(outcome: Outcome[int]) -> str:
    """What was chosen, and by how much it won."""
    chosen = f"buckets of {outcome.chosen / MIB:g} MiB"
    if outcome.chosen == outcome.start:
        return f"{chosen}, as before: {outcome.reason}"
    return (
        f"{chosen} instead of {outcome.start / MIB:g} MiB: {outcome.chosen_s * 1000:.1f} ms a "
        f"step instead of {outcome.start_s * 1000:.1f} ms, {outcome.gain:.1%} less"
    )


def _candidates(start: int) -> list[int]:
    """Sizes that are worth trying, the same on all ranks."""
    own = bucket_size.distinct([start, *(size for size in SIZES if size != start)])
    everyone = objects.allgather_object(own, name="autotune/candidates")
    return own if all(theirs == own for theirs in everyone) else [start]


def _sum_over_ranks(values: list[float]) -> list[float]:
    (total,) = allreduce_arrays([np.array(values)], op=ReduceOp.SUM, name="autotune/times")
    return [float(value) for value in total]
