"""`UpdateEpochState`: keeps the epoch in an elastic state."""

from __future__ import annotations

from typing import Any

import keras


class UpdateEpochState(keras.callbacks.Callback):
    """Sets `state.epoch` to the running epoch, or the next when one has ended.

    `KerasState` does so by itself. This is for other states, and for scripts that were written
    for Horovod. `fit` may count from `initial_epoch=state.epoch` or from 0.

    Example:

    >>> model.fit(..., initial_epoch=state.epoch,
    ...           callbacks=[tfring.callbacks.UpdateEpochState(state), ...])

    Args:
        state: With an attribute `epoch`.
    """

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self._offset: int | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Keras calls it."""
        self._offset = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Keras calls it."""
        if self._offset is None:
            self._offset = self.state.epoch - epoch
        self.state.epoch = epoch + self._offset

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Keras calls it."""
        self.state.epoch = epoch + (self._offset or 0) + 1
