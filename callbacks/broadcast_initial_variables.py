"""`BroadcastInitialVariables`: all ranks begin with one model and stay in step."""

from __future__ import annotations

import warnings
from typing import Any

import keras
import tensorflow as tf

from tfring import engine, objects
from tfring.autotune import TunedSteps
from tfring.callbacks.agreed_steps import AgreedSteps
from tfring.elastic.fit_follower import is_elastic, model_is_shared
from tfring.errors import InvalidArgumentError
from tfring.model_state import describe, is_built, require_same, shared_state
from tfring.monitoring.timeline.recording import StepMarker
from tfring.optimizer import require_distributed
from tfring.seed import differ_by_rank, seed_states
from tfring.variables import broadcast_variables


class BroadcastInitialVariables(keras.callbacks.Callback):
    """Gives every rank the weights and the optimizer state of one, before the first step.

    Initial values may come from chance or, on that rank, from a checkpoint. The optimizer is
    built beforehand, and so is a model that Keras would build with the first batch. The
    states of random generators are not copied: where ranks have the same ones, dropout and
    augmentation are made to differ.

    It also makes sure, before the first step, of what would otherwise hang or go wrong
    silently: that the optimizer is distributed, that the ranks have the same model, and that
    they take equally many steps. If they have different numbers of batches, every epoch ends
    on all ranks with the shortest, with a warning. If a number is unknown they agree before
    each batch whether all have another, at the price of a small allreduce.

    Example:

    >>> model.fit(train, callbacks=[tfring.callbacks.BroadcastInitialVariables(), ...])

    Args:
        root_rank: Whose values count.

    With the setting `autotune` it tries out sizes of buckets during the first steps; not in
    elastic jobs, where a newcomer has to have the others' buckets before it has met them.
    There nothing is broadcast that `KerasState.sync` has given to all already.
    In a timeline (`tfringrun --timeline`) it marks where each step begins and ends.

    On machines with GPUs it turns `jit_compile` off, with a warning.

    Raises:
        InvalidArgumentError: When training begins: the optimizer is not distributed, or the
            model can't be built without a step. Call it on a batch first.
        MismatchError: When training begins: the ranks have different models.
    """

    def __init__(self, root_rank: int = 0) -> None:
        super().__init__()
        self.root_rank = root_rank
        self._function: Any = None
        self._tuned: TunedSteps | None = None
        self._synchronised = 0
        self._marker = StepMarker()
        self._first_batch = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Keras calls it."""
        require_distributed(self.model)
        # A training that failed, as when an elastic job changes, has left its callback there.
        self._unwrap()
        self._synchronised = 0
        if engine.size() == 1:
            return
        own = (self.params.get("steps"), is_built(self.model))
        everyone = objects.allgather_object(own, name="fit/begin")
        batches = [number for number, _ in everyone]
        self._steps = AgreedSteps(batches, self.model.steps_per_execution)
        if engine.rank() == 0:
            self._steps.warn(batches)
        if self._steps.needed:
            # One dictionary for all callbacks: schedules by batch must be the same everywhere.
            self.params["steps"] = self._steps.limit
        # All ranks now, or all with their first batch.
        if all(built for _, built in everyone):
            self._broadcast()
        self._avoid_xla_on_gpus()
        self._wrap()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Keras calls it."""
        self._first_batch = batch
        self._marker.begin()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Keras calls it."""
        self._marker.end(batch - self._first_batch + 1)

    def on_train_end(self, logs: Any = None) -> None:
        """Keras calls it."""
        if self._tuned is not None:
            self._function, self._tuned = self._tuned.stop(), None
        self._unwrap()

    def _avoid_xla_on_gpus(self) -> None:
        """Keras turns XLA on by itself where it sees a GPU, and there it has no collectives."""
        if not (self.model.jit_compile and tf.config.list_logical_devices("GPU")):
            return
        if engine.rank() == 0:
            warnings.warn(
                "tfring can't run inside steps that XLA compiles for a GPU; training goes on "
                "with jit_compile=False",
                stacklevel=2,
            )
        self.model.jit_compile = False
        self._unwrap()
        self.model.make_train_function(force=True)

    def _wrap(self) -> None:
        """Puts this callback before Keras's train function, which is there already."""
        self._function = self.model.train_function
        if engine.config().autotune and not is_elastic(self.model):
            self._tuned = TunedSteps(self._new_train_function, self._function)
            self._function = self._tuned
        self.model.train_function = self._first_steps

    def _new_train_function(self) -> Any:
        current = self.model.train_function
        self.model.make_train_function(force=True)
        made, self.model.train_function = self.model.train_function, current
        return made

    def _unwrap(self) -> None:
        current = self.model.train_function
        while isinstance(owner := getattr(current, "__self__", None), BroadcastInitialVariables):
            current = owner._function
        if isinstance(current, TunedSteps):
            current = current.stop()
        self.model.train_function = current

    def _first_steps(self, iterator: Any) -> Any:
        if not self._synchronised:
            _build(self.model, iterator.element_spec)
            self._broadcast()
        try:
            result = self._run(iterator)
        except ValueError:
            # Keras says that the optimizer does not know a variable, which explains little.
            self._require_nothing_new()
            raise
        self._require_nothing_new()
        self.model.train_function = self._later_steps
        self._leave_if_done()
        return result

    def _later_steps(self, iterator: Any) -> Any:
        result = self._run(iterator)
        self._leave_if_done()
        return result

    def _leave_if_done(self) -> None:
        if self._tuned is not None and self._tuned.outcome is not None:
            self._function, self._tuned = self._tuned.function, None
        if self._tuned is None and not self._steps.needed:
            self._unwrap()

    def _run(self, iterator: Any) -> Any:
        if self._steps.needed:
            return self._steps.run(self._function, iterator)
        return self._function(iterator)

    def _broadcast(self) -> None:
        if model_is_shared(self.model):
            self._synchronised = len(self.model.weights)
            return
        state = shared_state(self.model)
        seeds = seed_states(self.model)
        own = (
            describe(state),
            [keras.ops.convert_to_numpy(v) for v in seeds],
        )
        everyone = objects.allgather_object(own, name="fit/variables")
        require_same([described for described, _ in everyone])
        broadcast_variables(state, self.root_rank, name="initial_variables")
        others = [values for _, values in everyone[: engine.rank()]]
        differ_by_rank(seeds, [values for values in others if len(values) == len(seeds)])
        self._synchronised = len(self.model.weights)

    def _require_nothing_new(self) -> None:
        new = self.model.weights[self._synchronised :]
        if new:
            names = ", ".join(variable.path for variable in new[:5])
            raise InvalidArgumentError(
                f"model {self.model.name!r} has made weights in its first training step, too late "
                f"for all ranks to begin with the same: {names}. Build it before fit, for "
                "instance by calling it on a batch"
            )


def _build(model: Any, element_spec: Any) -> None:
    """Builds a model from what its data looks like; no computation, no data."""
    if is_built(model):
        return
    data = element_spec if isinstance(element_spec, tuple) else (element_spec,)
    try:
        inputs = tf.nest.map_structure(
            lambda spec: keras.KerasTensor(spec.shape, spec.dtype.name), data[0]
        )
        model(inputs)
    except Exception as error:
        raise InvalidArgumentError(
            f"model {model.name!r} is not built, and building it from its data ({data[0]}) failed: "
            f"{error}. Build it before fit, for instance by calling it on a batch"
        ) from error
