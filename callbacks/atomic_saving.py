"""Saving a model so that there is either the whole new file or the old one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


class AtomicSaving:
    """A Keras model whose `save` and `save_weights` replace a file in one go.

    They write beside the file, make sure that the disk has it, and rename. If anything
    fails (a full disk, a killed process) the old file is as it was. Everything else is the
    model's own. Paths of remote file systems, such as gs://, are left to Keras.
    """

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def save(self, filepath: Any, *args: Any, **kwargs: Any) -> None:
        """As `keras.Model.save`."""
        self._replace(self._model.save, filepath, *args, **kwargs)

    def save_weights(self, filepath: Any, *args: Any, **kwargs: Any) -> None:
        """As `keras.Model.save_weights`."""
        self._replace(self._model.save_weights, filepath, *args, **kwargs)

    def _replace(self, write: Any, filepath: Any, *args: Any, **kwargs: Any) -> None:
        path = os.fspath(filepath)
        if "://" in path:
            write(filepath, *args, **kwargs)
            return
        # One name per file, not per process: what a killed one leaves is overwritten. Keras
        # looks at the end of the name.
        target = Path(path)
        temporary = target.with_name(f".saving-{target.name}")
        if target.is_dir():
            raise IsADirectoryError(f"{target} is a directory")
        try:
            write(str(temporary), *args, **kwargs)
            _sync(temporary)
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync(target.parent)


def _sync(path: Path) -> None:
    """Returns when the disk has it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
