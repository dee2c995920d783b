"""`Sampler`: each sample of an epoch once, whoever comes or goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from tfring import engine
from tfring.elastic.epoch_plan import EpochPlan, epoch_order, share
from tfring.elastic.sample_sources import batches_of
from tfring.errors import InvalidArgumentError

_BATCHES_AHEAD = 2


def _without_autotuning() -> tf.data.Options:
    """At its end an iterator waits for the thread that tunes it, which may sleep for seconds."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return options


@dataclass(frozen=True)
class _Position:
    """Where the training is, and since when it has had so many workers.

    Attributes:
        steps: Completed steps at that time.
        epoch, samples: The epoch, and samples of it that completed steps have taken.
        size: Number of workers of the steps that follow.
    """

    steps: int = 0
    epoch: int = 0
    samples: int = 0
    size: int = 1


class Sampler:
    """Divides the samples of each epoch among the workers of an elastic job.

    The order of an epoch depends on the seed and the epoch alone. A step takes the next samples
    in that order, and each worker a part of them. The position moves by *completed* steps: a
    step that was interrupted is taken again, perhaps by another number of workers, so every
    sample of an epoch is part of exactly one completed step.

    A sampler is an attribute of a `KerasState` or `TensorFlowState`, which counts the steps. In
    a loop without such a state call `advance` after each step.

    Example:

    >>> sampler = tfring.elastic.Sampler(len(x), global_batch_size=256, seed=1)
    >>> state = tfring.elastic.KerasState(model, sampler=sampler, epoch=0, batch=0)
    >>>
    >>> @tfring.elastic.run
    ... def train(state):
    ...     model.fit(sampler.dataset((x, y)), epochs=90, initial_epoch=state.epoch,
    ...               callbacks=[tfring.callbacks.CommitState(state)])

    Args:
        samples: How many there are, or something that has a length.
        batch_size: Samples of a worker in a step; the global batch follows their number.
        global_batch_size: Samples of all workers in a step, whatever their number. Then the
            training is the same with any number of workers, but for rounding: gradients are
            weighted by the number of samples (with `KerasState`; see `weigh_loss` for loops of
            one's own), while layers that look at a whole batch, such as BatchNormalization,
            see a worker's part of it.
        shuffle: Another order in each epoch.
        seed: Of these orders; the same on all workers.

    Raises:
        InvalidArgumentError: None or both of the batch sizes are given, or one is less than 1,
            or there are no samples.
    """

    def __init__(
        self,
        samples: int | Sized,
        *,
        batch_size: int | None = None,
        global_batch_size: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
    ) -> None:
        count = samples if isinstance(samples, int) else len(samples)
        given = [size for size in (batch_size, global_batch_size) if size is not None]
        if len(given) != 1 or given[0] < 1:
            raise InvalidArgumentError(
                "expected batch_size or global_batch_size, of at least 1, received "
                f"batch_size={batch_size} and global_batch_size={global_batch_size}"
            )
        if count < 1:
            raise InvalidArgumentError(f"samples: expected at least 1, received {count}")
        self.shuffle = shuffle
        self.seed = seed
        self._plan = EpochPlan(count, batch_size, global_batch_size)
        self._at = _Position()
        self._steps_by_hand = 0
        self._completed: Callable[[], int] = lambda: self._steps_by_hand
        self._running_epoch: Callable[[], Any] = lambda: None
        self._made: tuple[Any, list[Any], tf.data.Dataset] | None = None

    # ---- Where the training is -------------------------------------------------------------

    @property
    def weighs_samples(self) -> bool:
        """Whether workers with more samples in a step count for more."""
        return self._plan.global_batch_size is not None

    @property
    def epoch(self) -> int:
        """The epoch of the next step."""
        return self._now().epoch

    @property
    def position(self) -> int:
        """Samples of that epoch that completed steps have taken."""
        return self._now().samples

    def advance(self, steps: int = 1) -> None:
        """Steps have been completed; only where no state counts them."""
        self._steps_by_hand += steps

    def indices(self, rank: int, size: int) -> Iterator[np.ndarray]:
        """What a worker takes in each step of the rest of the epoch, if nothing changes.

        Yields:
            int64 indices of samples.
        """
        now = self._now()
        if self._epoch_is_over(now):
            return
        plan = self._plan
        order = np.arange(plan.samples)
        if self.shuffle:
            order = epoch_order(plan.samples, seed=self.seed, epoch=now.epoch)
        position = now.samples
        while position < plan.samples:
            count = plan.step_samples(position, size)
            first, last = share(position, count, rank, size)
            yield order[first:last]
            position += count

    # ---- Data ------------------------------------------------------------------------------

    def dataset(
        self,
        source: Any,
        *,
        load: Callable[..., Any] | None = None,
        augment: Callable[..., Any] | None = None,
    ) -> tf.data.Dataset:
        """This worker's batches of the samples, from where the training is.

        Iterated again, it goes on with the next epoch: one call of it does for
        `fit(epochs=...)`. Batches are made in parallel and ahead of time. For the same source
        it is the same dataset, so that a change of membership costs little.

        Args:
            source: An array, or a tuple, list or dictionary of arrays, with a row for each
                sample (lists of file names, too); or an object with a length whose elements,
                `source[index]`, are samples: arrays, or tuples or dictionaries of them.
            load: Makes a sample of a row, for instance reads and decodes a file; TensorFlow
                operations, run in parallel. Several arrays in a tuple are several arguments.
            augment: The same for a loaded sample.

        Returns:
            A `tf.data.Dataset` of batches of the source's structure. Batches may differ in
            their number of rows.

        Raises:
            InvalidArgumentError: The source has another number of samples.
        """
        leaves = tf.nest.flatten(source)
        key = (*map(id, leaves), load, augment)
        if self._made is None or self._made[0] != key:
            dataset = self._new_dataset(source, load, augment)
            self._made = (key, leaves, dataset)  # while they are kept ids are not used again
        return self._made[2]

    def _new_dataset(self, source: Any, load: Any, augment: Any) -> tf.data.Dataset:
        """One that asks for the number of workers when it is iterated, so it serves for ever."""
        make = batches_of(source, self._plan.samples, load, augment)

        def positions() -> Iterator[np.ndarray]:
            self._rebase(engine.size())
            yield from self.indices(engine.rank(), engine.size())

        indices = tf.data.Dataset.from_generator(
            positions, output_signature=tf.TensorSpec([None], tf.int64)
        )
        dataset = indices.map(make, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        dataset = dataset.prefetch(_BATCHES_AHEAD).with_options(_without_autotuning())
        # Keras takes it for the number of batches of every epoch; one that is entered in the
        # middle has fewer.
        dataset.cardinality = lambda: tf.constant(self._plan.steps(0, engine.size()), tf.int64)
        return dataset

    # ---- For states ------------------------------------------------------------------------

    def follow(self, state: Any) -> None:
        """Takes the completed steps from a state; the state calls it."""
        self._completed = lambda: state.consistent_steps
        self._running_epoch = lambda: getattr(state, "epoch", None)

    def state_dict(self) -> dict[str, int]:
        """Where the training is, for another process."""
        now = self._now()
        return {"steps": now.steps, "epoch": now.epoch, "samples": now.samples}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Goes on where another process was, or this one before."""
        self._at = _Position(state["steps"], state["epoch"], state["samples"], self._at.size)

    # ---- Own -------------------------------------------------------------------------------

    def _now(self) -> _Position:
        """The position after the steps that are completed now."""
        steps = self._completed()
        at = self._at
        if steps == at.steps:
            return at
        if steps < at.steps:
            # Restored to a commit of before: whoever did that has given the position, too.
            return replace(at, steps=steps)
        epoch, samples = self._plan.advance(at.epoch, at.samples, steps - at.steps, at.size)
        self._at = _Position(steps, epoch, samples, at.size)
        return self._at

    def _rebase(self, size: int) -> None:
        """From now on there are so many workers."""
        self._at = replace(self._now(), size=size)

    def _epoch_is_over(self, now: _Position) -> bool:
        """Whether the state's epoch has had all its steps, but has not ended yet."""
        running = self._running_epoch()
        return isinstance(running, int) and now.samples == 0 and now.epoch == running + 1
