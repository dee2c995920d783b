"""`TensorBoard`: one log for all ranks, with where their time goes."""

from __future__ import annotations

from typing import Any

import keras

from tfring import engine
from tfring.monitoring.communication import CommunicationMonitor


class TensorBoard(keras.callbacks.TensorBoard):
    """Keras's TensorBoard for several ranks: rank 0 writes, for all.

    Besides Keras's own scalars there are, in the run "train" under `tfring/`, after each
    epoch (and each `update_freq` batches, if it is not "epoch", with `batch_` before the name):

    - `step_time_s`: seconds a step, mean of the ranks; the first, which traces, is left out
    - `allreduce_time_s`: seconds a step in which gradients were being reduced
    - `exposed_communication`: share of the step time in which there was nothing to compute,
      only gradients to wait for
    - `allreduce_mb`, `allreduce_gb_per_s`: gradients a step, and how fast they were reduced
    - `wait_time_s/rank_0`, ...: seconds a step that each rank waited for others; the one that
      waits least is the slowest

    Put `AverageMetrics` into the list of callbacks too, or the metrics are those of rank 0.

    Example:

    >>> model.fit(..., callbacks=[tfring.callbacks.TensorBoard("logs", update_freq=100)])

    then `tensorboard --logdir logs`.

    Args:
        log_dir: Directory for rank 0 to write to.
        **options: As for `keras.callbacks.TensorBoard`.
    """

    def __init__(self, log_dir: Any = "logs", **options: Any) -> None:
        if engine.is_initialized() and engine.rank() != 0:
            options["profile_batch"] = 0
        super().__init__(log_dir, **options)
        self._batches = 0

    @property
    def _writes(self) -> bool:
        return engine.rank() == 0

    def set_model(self, model: Any) -> None:
        """Keras calls it."""
        if self._writes:
            super().set_model(model)
        else:
            keras.callbacks.Callback.set_model(self, model)

    def on_train_begin(self, logs: Any = None) -> None:
        """Keras calls it."""
        if self._writes:
            super().on_train_begin(logs)
        self._batches = 0
        self._epoch_monitor = CommunicationMonitor()
        self._batch_monitor = CommunicationMonitor()

    def on_train_end(self, logs: Any = None) -> None:
        """Keras calls it."""
        if self._writes:
            super().on_train_end(logs)

    def tfring_interrupted(self) -> None:
        """An elastic job has changed in the middle of `fit`: what was written is complete."""
        while self._prev_summary_state:
            self._pop_writer()
        self._close_writers()

    def on_test_begin(self, logs: Any = None) -> None:
        """Keras calls it."""
        if self._writes:
            super().on_test_begin(logs)

    def on_test_end(self, logs: Any = None) -> None:
        """Keras calls it."""
        if self._writes:
            with self.summary.record_if(True):
                super().on_test_end(logs)

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Keras calls it."""
        if self._writes:
            super().on_test_batch_begin(batch, logs)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Keras calls it."""
        if self._writes:
            super().on_epoch_begin(epoch, logs)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Keras calls it."""
        if self._writes:
            super().on_train_batch_begin(batch, logs)
        else:
            # For the day when this rank writes: rank 0 may be lost in an elastic job.
            self._global_train_batch += 1
        self._begin = batch
        self._epoch_monitor.begin_step()
        self._batch_monitor.begin_step()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Keras calls it."""
        steps = batch - self._begin + 1
        self._epoch_monitor.end_step(steps)
        self._batch_monitor.end_step(steps)
        if self._batches == 0:
            # The first step is for tracing, which takes longer than a thousand others.
            self._epoch_monitor.restart()
            self._batch_monitor.restart()
        before, self._batches = self._batches, self._batches + steps
        if self._writes:
            super().on_train_batch_end(batch, logs)
        # With several steps per execution a multiple may lie between two calls.
        often = self.update_freq != "epoch"
        if often and self._batches // self.update_freq > before // self.update_freq:
            self._write(self._batch_monitor, "tfring/batch_", self._batches)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Keras calls it."""
        if self._writes:
            # Keras forgets that what holds for batches, every `update_freq`-th, holds no
            # longer, and would lose the scalars of most epochs.
            with self.summary.record_if(True):
                super().on_epoch_end(epoch, logs)
        self._write(self._epoch_monitor, "tfring/", epoch)

    def _write(self, monitor: CommunicationMonitor, prefix: str, step: int) -> None:
        scalars = monitor.collect(name=f"tensorboard/{prefix}")
        if not self._writes:
            return
        # Private in Keras. A writer of our own would make a second file in that directory,
        # and TensorBoard shows the newest only.
        with self._train_writer.as_default(), self.summary.record_if(True):
            for name, value in scalars.items():
                self.summary.scalar(f"{prefix}{name}", value, step=step)
