"""`KerasState`: a model that trains by `fit`, whoever dies."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras

from tfring import engine
from tfring.elastic.fit_follower import FitFollower, FitRecord
from tfring.elastic.member_sync import Snapshot
from tfring.elastic.sample_weights import weighted
from tfring.elastic.sampler import Sampler
from tfring.elastic.tensorflow_state import TensorFlowState
from tfring.errors import InvalidArgumentError
from tfring.model_state import is_built
from tfring.variables import broadcast_variables


class KerasState(TensorFlowState):
    """The state of a model that is trained by `fit`.

    When membership changes `fit` is left by an exception and called again. Then:

    - every variable is what it was after the last completed step: weights, optimizer, averages
      of BatchNormalization, metrics, seeds
    - workers that had completed a step less get it from those that had not
    - a newcomer has the weights, the optimizer's state, the attributes, the callbacks' state
    - Keras's callbacks and tfring's go on with what they remembered (EarlyStopping its `wait`
      and `best`, History its history, ...): what is plain data among their attributes
    - the metrics of the running epoch go on, less the share of workers that were lost

    Attributes with the names `epoch` and `batch` follow the training: the running epoch, or the
    next when one has ended, and the batches that are completed in it.

    Example:

    >>> state = tfring.elastic.KerasState(model, epoch=0, batch=0)
    >>>
    >>> @tfring.elastic.run
    ... def train(state):
    ...     model.fit(dataset, epochs=90, initial_epoch=state.epoch,
    ...               callbacks=[tfring.callbacks.CommitState(state, batches_per_commit=50)])
    >>>
    >>> train(state)

    Args:
        model: A `keras.Model`. Its `train_step` is wrapped, so make the state before training.
        optimizer: The one that trains it, if it is not compiled with it.
        directory, **attributes: As for `TensorFlowState`.

    Raises:
        InvalidArgumentError: As `TensorFlowState`; or `model` is no Keras model.
    """

    def __init__(
        self, model: Any, optimizer: Any = None, *, directory: Any = None, **attributes: Any
    ) -> None:
        if not isinstance(model, keras.Model):
            raise InvalidArgumentError(f"model: expected a keras.Model, received {model!r}")
        super().__init__(model=model, optimizer=optimizer, directory=directory, **attributes)
        own = type(model).train_step is keras.Model.train_step
        # Another state of this model may have wrapped it.
        step = model.train_step
        while hasattr(step, "tfring_plain"):
            step = step.tfring_plain
        for sampler in attributes.values():
            if isinstance(sampler, Sampler) and sampler.weighs_samples:
                step = weighted(step, sampler, self.completed_steps_variable)
                break
        vars(model)["train_step"] = self._steps.wrap(step, one_update=own)
        make = getattr(model.make_train_function, "tfring_plain", model.make_train_function)
        vars(model)["make_train_function"] = self._compile_within(make)
        # It may have been made of the step that is not wrapped.
        model.train_function = None
        self._follower = FitFollower(
            model,
            completed_steps=self._steps.consistent_steps,
            on_position=self._set_position,
            on_train_begin=self._complete_sync,
            on_data_end=self._undo_end_of_data,
            epoch=self._position(),
        )

    def update_position(self) -> None:
        """Sets `epoch` and `batch` to where the training is."""
        self._follow_epoch()
        self._set_position(self._follower.record.epoch, self._follower.batches_done())

    def recover(self) -> None:
        """As `TensorFlowState.recover`; also keeps what the next call of `fit` goes on with."""
        super().recover()
        self._follower.interrupted()
        self.update_position()

    def sync(self) -> None:
        """As `TensorFlowState.sync`."""
        if not self._member:
            self._follower.metrics = None  # of a rehearsal
        super().sync()
        self._follower.shared = self._follower.shared or is_built(self._model)

    def _position(self) -> int:
        follower = getattr(self, "_follower", None)
        return super()._position() if follower is None else follower.record.epoch

    def _follow_epoch(self) -> None:
        # Between two calls of `fit` the user may say which epoch is the next.
        if "epoch" in self._names and self._follower.idle():
            self._follower.record.epoch = super()._position()

    def _set_position(self, epoch: int, batch: int) -> None:
        for name, value in (("epoch", epoch), ("batch", batch)):
            if name in self._names:
                setattr(self, name, value)

    def _snapshot(self) -> Snapshot:
        self.update_position()
        return super()._snapshot()

    def _meta(self) -> dict[str, Any]:
        record = self._follower.snapshot()
        return {**super()._meta(), "fit": vars(record), "metrics": self._follower.metrics_now()}

    def _put_meta(self, meta: dict[str, Any], *, own: bool) -> None:
        super()._put_meta(meta, own=own)
        self._follower.record = FitRecord(**meta["fit"])
        if own:  # another rank's metrics are in its own sums already
            self._follower.metrics = meta["metrics"]

    def _compile_within(self, make: Callable[..., Any]) -> Callable[..., Any]:
        """Has XLA compile what is within the wrapped step, and not the wrapping."""

        @functools.wraps(make)
        def make_train_function(force: bool = False) -> Any:
            model, compiled = self._model, self._model.jit_compile
            if force or model.train_function is None:
                self._steps.compiled = bool(compiled) and not model.run_eagerly
            try:
                model.jit_compile = False
                return make(force=force)
            finally:
                model.jit_compile = compiled

        make_train_function.tfring_plain = make  # type: ignore[attr-defined]
        return make_train_function

    def _undo_end_of_data(self) -> None:
        # `fit` learns that the data has ended by a step that fails. What needs no data has been
        # done by then: sample counts of metrics, seeds.
        self._steps.undo(within_update=False)

    def _complete_sync(self) -> None:
        """What could not be done at `sync`, since the model was not built."""
        self._follow_epoch()
        if self._follower.shared or not is_built(self._model):
            return
        self._follower.shared = True
        if engine.is_initialized() and engine.size() > 1:
            self._take_resumed()
            broadcast_variables(self._shared_native(), self._root, name="elastic/variables")
