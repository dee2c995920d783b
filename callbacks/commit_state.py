"""`CommitState`: commits an elastic state every so many batches."""

from __future__ import annotations

from typing import Any

import keras

from tfring.errors import InvalidArgumentError


class CommitState(keras.callbacks.Callback):
    """Commits the state every `batches_per_commit` batches, and at the end of each epoch.

    With `KerasState` no commit is needed to survive the loss of workers. Commits are for the
    loss of all of them: they are written to disk in the background if the state has a directory
    for that, and a new start resumes from the last.

    Example:

    >>> model.fit(..., callbacks=[tfring.callbacks.CommitState(state, batches_per_commit=50)])

    Args:
        state: A `tfring.elastic.KerasState`, or any other state.
        batches_per_commit: How often; more than 1 for steps that are short.

    Raises:
        InvalidArgumentError: `batches_per_commit` is less than 1.
    """

    def __init__(self, state: Any, batches_per_commit: int = 1) -> None:
        super().__init__()
        if batches_per_commit < 1:
            raise InvalidArgumentError(
                f"batches_per_commit: expected 1 or more, received {batches_per_commit}"
            )
        self.state = state
        self.batches_per_commit = batches_per_commit
        self._since = 0
        self._begin = 0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Keras calls it."""
        self._begin = batch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Keras calls it."""
        self._since += batch - self._begin + 1
        if self._since >= self.batches_per_commit:
            self._commit()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Keras calls it."""
        self._commit()

    def _commit(self) -> None:
        self._since = 0
        self.state.commit()
