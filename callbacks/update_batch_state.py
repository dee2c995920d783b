"""`UpdateBatchState`: keeps the batch in an elastic state."""

from __future__ import annotations

from typing import Any

import keras


class UpdateBatchState(keras.callbacks.Callback):
    """Sets `state.batch` to the number of batches completed in the running epoch.

    `KerasState` does so by itself. This is for other states, and for scripts that were written
    for Horovod. Put it before `CommitState`.

    Example:

    >>> model.fit(..., callbacks=[tfring.callbacks.UpdateBatchState(state), ...])

    Args:
        state: With an attribute `batch`; what it is when `fit` begins is added to the batches
            of the first epoch.
    """

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self._before = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Keras calls it."""
        self._before = self.state.batch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Keras calls it."""
        self.state.batch = self._before + batch + 1

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Keras calls it."""
        self._before = self.state.batch = 0
