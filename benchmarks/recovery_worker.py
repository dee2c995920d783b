"""The worker of benchmarks/recovery.py: trains the small CNN, and writes down each step."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import keras
import numpy as np

import tfring
import tfring.callbacks
from benchmarks.engines.training import CNN_BATCH, CNN_CLASSES, CNN_INPUT, small_cnn
from tfring import engine


class Steps(keras.callbacks.Callback):  # type: ignore[misc]
    """Writes a line for each completed step to standard error's file of this process."""

    def __init__(self, directory: str) -> None:
        super().__init__()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = os.open(f"{directory}/{os.getpid()}.jsonl", flags, 0o644)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        place = engine.config()
        parts = tfring.elastic.recoveries()[-1].seconds
        line = {
            "time": time.monotonic(),
            "pid": os.getpid(),
            "rank": place.rank,
            "size": place.size,
            "generation": place.generation,
            "parts": parts,
        }
        os.write(self._file, (json.dumps(line) + "\n").encode())


def main() -> None:
    tfring.init()
    model = small_cnn()
    model.compile(
        tfring.DistributedOptimizer(keras.optimizers.SGD(0.001, momentum=0.9)),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    random = np.random.default_rng(0)
    images = random.random((8192, *CNN_INPUT), np.float32)
    labels = random.integers(0, CNN_CLASSES, len(images))
    sampler = tfring.elastic.Sampler(len(images), batch_size=CNN_BATCH)
    state = tfring.elastic.KerasState(model, sampler=sampler, epoch=0, batch=0)
    steps = Steps(sys.argv[1])

    @tfring.elastic.run
    def train(state: Any) -> None:
        model.fit(
            sampler.dataset((images, labels)),
            epochs=1000,
            initial_epoch=state.epoch,
            verbose=0,
            callbacks=[steps, tfring.callbacks.CommitState(state, batches_per_commit=20)],
        )

    train(state)


if __name__ == "__main__":
    main()
