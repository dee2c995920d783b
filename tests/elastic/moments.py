"""Moments at which a worker of a test dies, by its own hand: SIGKILL, exactly then.

    DIE_WHILE=MOMENT DIE_RANK=1 tfringrun ... python train_digits.py

It does so in the first generation only.

    DIE_AT_ONCE=FILE tfringrun ... python train_digits.py

All replacements die as soon as they begin, and add a line to the file, while there is that file.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import keras

import tfring
from tfring import engine

MOMENT = os.environ.get("DIE_WHILE", "")
RANK = int(os.environ.get("DIE_RANK", "0"))


def die_while(moment: str) -> None:
    """Where a script has come to a moment."""
    place = engine.config()
    if moment == MOMENT and place.rank == RANK and place.generation == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def die_as_a_replacement() -> None:
    """Where a script begins."""
    path = Path(os.environ.get("DIE_AT_ONCE", "") or os.devnull)
    if path.is_file() and engine.config().generation > 0:
        with path.open("a") as file:
            file.write(f"{os.getpid()}\n")
        os.kill(os.getpid(), signal.SIGKILL)


def broadcast() -> None:
    """A broadcast from rank 0, which dies before it takes part."""
    if MOMENT == "broadcast":
        die_while("broadcast")
        assert tfring.broadcast_object("from rank 0", name="moment") == "from rank 0"


def die_while_committing() -> None:
    """A commit is written to its end and dies before it has its name."""
    if MOMENT == "commit":
        replace = os.replace

        def dying(source: Any, target: Any) -> None:
            die_while("commit")
            replace(source, target)

        os.replace = dying


class DieInCallbacks(keras.callbacks.Callback):  # type: ignore[misc]
    """Dies when others are in the middle of what all do together."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        die_while("end of an epoch")

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        die_while("evaluation")
