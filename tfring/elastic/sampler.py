"""`Sampler`: each sample of an epoch once, whoever comes or goes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sized
from typing import Any

import numpy as np
import tensorflow as tf

from tfring import engine
from tfring.elastic.epoch_plan import EpochPlan, share
from tfring.elastic.sample_order import SampleOrder
from tfring.elastic.sample_sources import parts, same_code
from tfring.elastic.sampled_batches import sampled_batches
from tfring.elastic.sampler_history import Place, SamplerHistory
from tfring.errors import InvalidArgumentError


class Sampler:
    """Divides the samples of each epoch among the workers of an elastic job.

    The order of an epoch depends on the seed and the epoch alone. A step takes the next samples
    in that order, and each worker a part of them. The position moves by *completed* steps: a
    step that was interrupted is taken again, perhaps by another number of workers, so every
    sample of an epoch is part of exactly one completed step.

    A sampler is an attribute of a state. `KerasState` and `TensorFlowState` count the steps that
    their optimizers complete. Where none does, and with `ObjectState`, call `advance` after each
    step.

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
        count = len(samples) if isinstance(samples, Sized) else operator.index(samples)
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
        self._history = SamplerHistory(self._plan)
        self._state: Any = None
        self._steps_by_hand = 0
        self._entries = 0  # of the training function, as of the last iteration
        # The step after the whole batches of the epoch; copies of samples in whole batches, in
        # that step and in the one after. In a graph, which survives changes of membership.
        self._copies: tf.Variable | None = None
        if self.weighs_samples:
            with tf.init_scope(), tf.device("CPU:0"):
                self._copies = tf.Variable([0, 1, 1, 1], dtype=tf.int64, trainable=False)
        self._made: tuple[Any, Any, tf.data.Dataset] | None = None

    # ---- Where the training is -------------------------------------------------------------

    @property
    def weighs_samples(self) -> bool:
        """Whether workers with more samples in a step count for more."""
        return self._plan.global_batch_size is not None

    @property
    def epoch(self) -> int:
        """The epoch of the next step."""
        return self._history.at(self._completed()).epoch

    @property
    def position(self) -> int:
        """Samples of that epoch that completed steps have taken."""
        return self._history.at(self._completed()).samples

    def advance(self, steps: int = 1) -> None:
        """Steps have been completed; only where no state counts them.

        Raises:
            InvalidArgumentError: One does.
        """
        if self._is_counted():
            raise InvalidArgumentError(
                f"advance: the {type(self._state).__name__} of this sampler counts completed steps "
                "itself"
            )
        self._steps_by_hand += steps

    def indices(self, rank: int | None = None, size: int | None = None) -> Iterator[np.ndarray]:
        """What a worker takes in each step of the rest of the epoch, if nothing changes.

        Example:

        >>> for rows in sampler.indices():
        ...     train_step(x[rows], y[rows])
        ...     sampler.advance()

        Args:
            rank, size: The worker and the number of workers; by default those of the job.

        Yields:
            int64 indices of samples.
        """
        rank = engine.rank() if rank is None else rank
        size = engine.size() if size is None else size
        for order, position, count in self._steps(rank, size):
            first, last = share(position, count, rank, size)
            yield order[first:last]

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
        and functions it is the same dataset, so that a change of membership costs little.

        Example:

        >>> def decode(name, label):
        ...     return tf.io.decode_jpeg(tf.io.read_file(name)), label
        >>>
        >>> sampler = tfring.elastic.Sampler(names, batch_size=32)
        >>> model.fit(sampler.dataset((names, labels), load=decode), ...)

        Args:
            source: An array, or a tuple, list or dictionary of arrays, with a row for each
                sample (lists of file names, too); or an object with a length whose elements,
                `source[index]`, are samples: arrays, or tuples or dictionaries of them. Several
                threads ask it at once.
            load: Makes a sample of a row, for instance reads and decodes a file; TensorFlow
                operations, run in parallel. Several arrays in a tuple are several arguments.
            augment: The same for a loaded sample.

        Returns:
            A `tf.data.Dataset` of batches of the source's structure, with lists as tuples.
            Batches may differ in their number of rows. Its length is that of a whole epoch,
            and not known any more once the dataset is transformed.

        Raises:
            InvalidArgumentError: The source has another number of samples.
        """
        leaves = parts(source)
        key = [(place, id(leaf)) for place, leaf in leaves], same_code(load), same_code(augment)
        if self._made is None or self._made[0] != key:
            dataset = sampled_batches(
                self.indices, source, self._plan.samples, load=load, augment=augment
            )
            # Keras takes it for the number of batches of every epoch; one that is entered in
            # the middle has fewer.
            dataset.cardinality = lambda: tf.constant(self._steps_of_epoch(), tf.int64)
            # Ids are not used again while objects are kept.
            self._made = (key, (leaves, load, augment), dataset)
        return self._made[2]

    # ---- For states ------------------------------------------------------------------------

    def follow(self, state: Any) -> None:
        """Takes the completed steps from a state, if it counts them; the state calls it."""
        self._state = state

    def samples_that_count(self, samples: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """How many samples of a step are a worker's; in a graph.

        Args:
            samples: Those of its batch. Where there are fewer samples than workers, others have
                the same ones, and each has a part.
            step: Completed steps before it.

        Returns:
            A float64 number; its sum over the workers is the number of the step's samples.
        """
        own = tf.cast(samples, tf.float64)
        if self._copies is None:
            return own
        # It is set when the first batch of an epoch is made.
        with tf.control_dependencies([own]):
            copies = self._copies.read_value()
        kind = tf.clip_by_value(step - copies[0] + 1, 0, 2)
        return own / tf.cast(copies[1 + kind], tf.float64)

    def state_dict(self) -> dict[str, int]:
        """Where the training is, for another process."""
        steps = self._state.consistent_steps if self._is_counted() else self._steps_by_hand
        place = self._history.at(steps)
        return dict(vars(place))

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Goes on where another process was, or this one before."""
        place = Place(**state)
        self._history.begin_at(place)
        self._steps_by_hand = place.steps

    # ---- Own -------------------------------------------------------------------------------

    def _is_counted(self) -> bool:
        return self._state is not None and self._state.counts_steps

    def _completed(self) -> int:
        return int(self._state.completed_steps) if self._is_counted() else self._steps_by_hand

    def _steps(self, rank: int, size: int) -> Iterator[tuple[SampleOrder, int, int]]:
        """The rest of the epoch: for each step the order, the position, how many samples."""
        place = self._history.continue_with(size, self._completed())
        plan, places = self._plan, self._places(place)
        for _, position in places[:1]:
            self._note_copies(place.steps, position, rank, size)
        for epoch, position in places:
            order = SampleOrder(plan.samples, seed=self.seed, epoch=epoch, shuffle=self.shuffle)
            while position < plan.samples:
                count = plan.step_samples(position, size)
                yield order, position, count
                position += count

    def _note_copies(self, steps: int, position: int, rank: int, size: int) -> None:
        if self._copies is not None:
            whole, _ = self._plan.cut(position, size)
            copies = self._plan.copies(position, rank, size)
            self._copies.assign([steps + whole, *copies])

    def _steps_of_epoch(self) -> int:
        return self._plan.steps(0, engine.size())

    def _places(self, place: Place) -> list[tuple[int, int]]:
        """Epochs of the next iteration over the data, and where to begin in them.

        It is one. But when the training function has just been entered, the epoch of its loop
        may not be that of the next step.
        """
        entries, self._entries = self._entries, getattr(self._state, "entries", 0)
        running = getattr(self._state, "epoch", None)
        if entries == self._entries or not isinstance(running, int):
            return [(place.epoch, place.samples)]
        if place.samples == 0 and running == place.epoch - 1:
            return []  # it has had all its steps, but it has not ended yet
        if place.samples == 0 and running > place.epoch:
            # The user begins with a later one.
            self._history.begin_at(Place(place.steps, running, 0, place.size))
            return [(running, 0)]
        if running == place.epoch + 1:
            # An update of several steps has been undone, and it began in the epoch before.
            return [(place.epoch, place.samples), (running, 0)]
        return [(place.epoch, place.samples)]
