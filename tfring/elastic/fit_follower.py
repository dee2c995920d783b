"""Follows `fit`, so that a call of it can go on where another one ended.

After a change of membership the user's function is called again, and it calls `fit` again.
Keras begins anew then: it empties the metrics, has the callbacks forget, counts batches from 0.
The follower knows what was there before and puts it back, at the moments at which Keras calls
its callbacks, before the first of them or after the last.

    on_train_begin      after: callbacks get their state back
    on_epoch_begin      before: metrics of the running epoch get theirs
    on_test_begin       before: the metrics of training are kept, since evaluation empties them
    on_epoch_end        before: state of callbacks is kept; an end of epoch that fails on the way
                        is repeated. After: the epoch has ended
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from tfring.elastic.callback_state import CallbackMemory, CallbackState
from tfring.elastic.running_metrics import add, restore, values
from tfring.keras_hooks import epoch_is_shorter, follow_callback_lists, override_metric_logs

_followers: weakref.WeakKeyDictionary[Any, FitFollower] = weakref.WeakKeyDictionary()


@dataclass
class FitRecord:
    """Where a call of `fit` is, in plain values.

    Attributes:
        epoch: The running epoch, or the next.
        epoch_begun_at: Completed steps when it began; None: it has not.
        fraction: How much of it was over when this call of `fit` entered it.
        callbacks: State of the callbacks; None: `fit` is not running.
    """

    epoch: int = 0
    epoch_begun_at: int | None = None
    fraction: float = 0.0
    callbacks: CallbackState | None = None


@dataclass
class _Running:
    """One call of `fit`."""

    callbacks: Sequence[Any]
    memory: CallbackMemory
    offset: int | None = None  # what to add to Keras's epochs to have ours
    entered_at: int = 0  # completed steps when the epoch was entered
    at_epoch_end: CallbackState | None = None
    undo: list[Callable[[], None]] = field(default_factory=list)


class FitFollower:
    """Follows the calls of `fit` of one model.

    Args:
        model: A `keras.Model`.
        completed_steps: Returns the number of steps completed.
        on_position: Called with the epoch and the batches done in it, whenever it has changed
            at an end of an epoch.
        on_train_begin: Called after that of all callbacks.
        on_data_end: Called when an epoch has no more batches, before its logs are made.
        epoch: The epoch to begin with.

    Attributes:
        record: Where the training is; what is carried to other processes.
        metrics: State of the running epoch's metrics on this rank; None: they have it.
        shared: Whether all ranks have had the same weights.
    """

    def __init__(
        self,
        model: Any,
        completed_steps: Callable[[], int],
        on_position: Callable[[int, int], None],
        on_train_begin: Callable[[], None] = lambda: None,
        on_data_end: Callable[[], None] = lambda: None,
        epoch: int = 0,
    ) -> None:
        self._model = model
        self._completed_steps = completed_steps
        self._on_position = on_position
        self._on_train_begin = on_train_begin
        self._on_data_end = on_data_end
        self._running: _Running | None = None
        self.record = FitRecord(epoch)
        self.metrics: list[np.ndarray] | None = None
        self.shared = False
        # What metrics are to begin with that Keras builds with the first batch.
        self._unbuilt: list[np.ndarray] | None = None
        _followers[model] = self
        follow_callback_lists(_followers.get)

    def idle(self) -> bool:
        """Whether no call of `fit` is running, and none is to go on in the middle of an epoch."""
        return self._running is None and self.record.epoch_begun_at is None

    def batches_done(self) -> int:
        """Steps of the running epoch that are completed."""
        begun = self.record.epoch_begun_at
        return 0 if begun is None else max(0, self._completed_steps() - begun)

    def batches_before(self) -> int:
        """Those of them that were completed when this call of `fit` entered the epoch."""
        begun = self.record.epoch_begun_at
        return 0 if begun is None or self._running is None else self._running.entered_at - begun

    def fraction(self, steps: int | None) -> float:
        """How much of the running epoch is over.

        Args:
            steps: Those that this call of `fit` takes in it; None if unknown.
        """
        if self._running is None or not steps:
            return self.record.fraction
        taken = min(1.0, (self._completed_steps() - self._running.entered_at) / steps)
        return self.record.fraction + (1 - self.record.fraction) * taken

    def interrupted(self) -> None:
        """`fit` has been left by an exception: keeps what the next call needs.

        To be called when the failed step has been undone.
        """
        running = self._running
        if running is None:
            return
        _call(running.callbacks, "tfring_undo_step")
        self.record, self.metrics = self.snapshot(), self.metrics_now()
        self._running = None
        _call(running.callbacks, "tfring_interrupted")
        _undo(running)

    def snapshot(self) -> FitRecord:
        """The record as it would be if `fit` were interrupted now."""
        record, running = FitRecord(**vars(self.record)), self._running
        if running is not None:
            state = running.at_epoch_end
            record.callbacks = running.memory.capture() if state is None else state
            params = [c.params for c in running.callbacks if c.params]
            record.fraction = self.fraction(params[0].get("steps") if params else None)
        return record

    def metrics_now(self) -> list[np.ndarray] | None:
        """State of the running epoch's metrics on this rank; None between epochs."""
        if self.metrics is None and self._running and self.record.epoch_begun_at is not None:
            self._add_unbuilt()
            return values(self._model)
        return self.metrics

    def _add_unbuilt(self) -> None:
        unbuilt, self._unbuilt = self._unbuilt, None
        if unbuilt is not None:
            self._unbuilt = add(self._model, unbuilt)

    # ---- What Keras calls ------------------------------------------------------------------

    @contextlib.contextmanager
    def around(self, event: str, callbacks: Sequence[Any], epoch: int | None) -> Iterator[None]:
        """Goes around one call of all callbacks."""
        before = getattr(self, f"_before_{event}", None)
        if before is not None:
            before(*([callbacks] if epoch is None else [epoch]))
        yield
        after = getattr(self, f"_after_{event}", None)
        if after is not None:
            after(*([callbacks] if epoch is None else [epoch]))

    def _before_on_train_begin(self, callbacks: Sequence[Any]) -> None:
        self._mute: list[Any] = []
        if self.record.callbacks is None:
            return
        for callback in callbacks:
            if isinstance(callback, keras.callbacks.BackupAndRestore):
                # It would load the weights of the last epoch's end over those of now.
                vars(callback)["on_train_begin"] = lambda logs=None: None
                self._mute.append(callback)
            if isinstance(callback, keras.callbacks.CSVLogger):
                callback.append = True

    def _after_on_train_begin(self, callbacks: Sequence[Any]) -> None:
        for callback in self._mute:
            del vars(callback)["on_train_begin"]
        self._on_train_begin()
        memory = CallbackMemory(callbacks, self.record.callbacks)
        self._running = _Running(callbacks, memory)

    def _before_on_epoch_begin(self, epoch: int) -> None:
        running, record = self._running, self.record
        if running is None:
            return
        if running.offset is None:
            # `fit` may count from initial_epoch=state.epoch, or from 0.
            running.offset = record.epoch - epoch
        steps = self._completed_steps()
        again = record.epoch_begun_at is not None and record.epoch == epoch + running.offset
        if not again:
            record.epoch, record.epoch_begun_at = epoch + running.offset, steps
            record.fraction, self.metrics = 0.0, None
            self._on_position(record.epoch, 0)
        running.entered_at = steps
        if again and self.metrics is not None:
            self._unbuilt = restore(self._model, self.metrics)
        self.metrics = None
        _undo(running)
        epoch_is_shorter(again)
        running.undo.append(lambda: epoch_is_shorter(False))
        running.undo.append(
            override_metric_logs(self._model, before=self._before_logs, always=again)
        )

    def _before_logs(self) -> None:
        if self.metrics is None:  # else it is evaluation that has ended
            self._on_data_end()
            self._add_unbuilt()

    def _before_on_test_begin(self, callbacks: Sequence[Any]) -> None:
        self.metrics = self.metrics_now()

    def _before_on_epoch_end(self, epoch: int) -> None:
        if self._running is None:
            return
        self._running.at_epoch_end = self._running.memory.capture()
        self.metrics = self.metrics_now()

    def _after_on_epoch_end(self, epoch: int) -> None:
        running = self._running
        if running is None:
            return
        running.at_epoch_end, self.metrics = None, None
        _undo(running)
        self.record.epoch = epoch + (running.offset or 0) + 1
        self.record.epoch_begun_at, self.record.fraction = None, 0.0
        self._on_position(self.record.epoch, 0)

    def _after_on_train_end(self, callbacks: Sequence[Any]) -> None:
        self._running = None
        self.record.callbacks = None


def is_elastic(model: Any) -> bool:
    """Whether an elastic state follows a model."""
    return model in _followers


def model_is_shared(model: Any) -> bool:
    """Whether an elastic state has given all ranks the same weights already."""
    follower = _followers.get(model)
    return follower is not None and follower.shared


def epoch_fraction(model: Any) -> tuple[float, int]:
    """Where an epoch was entered that was begun by another call of `fit`.

    Returns:
        How much of it was over, from 0 to 1; 0 if `fit` has begun it, or nobody follows.
        And the number of batches completed in it by then.
    """
    follower = _followers.get(model)
    return (0.0, 0) if follower is None else (follower.record.fraction, follower.batches_before())


def _call(callbacks: Sequence[Any], hook: str) -> None:
    for callback in callbacks:
        function = getattr(callback, hook, None)
        if function is not None:
            function()


def _undo(running: _Running) -> None:
    while running.undo:
        running.undo.pop()()
