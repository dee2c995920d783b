"""`ModelCheckpoint`: rank 0 saves for all, all decide alike."""

from __future__ import annotations

import os
from typing import Any

import keras

from tfring import engine, objects
from tfring.callbacks.atomic_saving import AtomicSaving
from tfring.errors import TfringError


class ModelCheckpoint(keras.callbacks.ModelCheckpoint):
    """Keras's ModelCheckpoint for several ranks: rank 0 decides and writes.

    A file is replaced in one go: there is always either the old one or the whole new one.
    If it can't be written (no space, no permission) all ranks raise an error; none waits for
    another that has failed.

    Example:

    >>> tfring.callbacks.ModelCheckpoint("checkpoints/epoch-{epoch:03d}.keras", keep=3)

    Args:
        filepath: As for Keras; `{epoch}`, `{val_loss:.2f}` and so on are filled in.
        keep: How many of the files that it has written to keep; older ones are deleted once
            a new one is complete. Files of an earlier run are never deleted. By default all.
        **options: monitor, verbose, save_best_only, save_weights_only, mode, save_freq,
            initial_value_threshold: as for Keras.

    Raises:
        ValueError: As Keras, or `keep` is less than 1.
        OSError: On rank 0, during training: the file can't be written.
        TfringError: The same, on the others.
    """

    def __init__(self, filepath: Any, *, keep: int | None = None, **options: Any) -> None:
        if engine.is_initialized() and engine.rank() != 0:
            options["verbose"] = 0
        super().__init__(filepath, **options)
        if keep is not None and keep < 1:
            raise ValueError(f"keep: expected at least 1, received {keep}")
        self.keep = keep
        self._written: list[str] = []

    def set_model(self, model: Any) -> None:
        """Keras calls it."""
        super().set_model(AtomicSaving(model) if engine.rank() == 0 else model)

    # Private in Keras: the one method that decides whether to save and does it. It is called
    # at the same moments on every rank.
    def _save_model(self, epoch: int, batch: int | None, logs: Any) -> None:
        error: Exception | None = None
        if self.save_best_only and self.monitor_op is None:
            # Keras does it after the first epoch only, too late for saving by batches.
            self._set_monitor_op()
        if engine.rank() == 0:
            try:
                super()._save_model(epoch, batch, logs)
                self._delete_old(self._get_file_path(epoch, batch, logs))
            except Exception as caught:
                error = caught
        if engine.size() > 1:
            said = None if error is None else f"{type(error).__name__}: {error}"
            # All know what rank 0 knows: in an elastic job it may be lost.
            answer = objects.broadcast_object((self.best, self._written, said), name="checkpoint")
            self.best: float | None = answer[0]
            self._written, said = list(answer[1]), answer[2]
            if said is not None and error is None:
                raise TfringError(f"rank 0 could not save a checkpoint: {said}")
        if error is not None:
            raise error

    def _delete_old(self, path: str) -> None:
        if self.keep is None or not os.path.exists(path):
            return
        if path in self._written:
            self._written.remove(path)
        self._written.append(path)
        while len(self._written) > self.keep:
            old = self._written.pop(0)
            if os.path.exists(old):
                os.remove(old)
