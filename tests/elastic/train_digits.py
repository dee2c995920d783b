"""A training script for tests: elastic, and it keeps books.

    EVENTS=DIRECTORY tfringrun --min-np 1 --max-np 3 python train_digits.py --epochs 3

It trains the digits classifier as a user would. Every process writes what happens to it, one
JSON object a line, to a file of its own in $EVENTS (see ledger.py): which samples it tries to
train on, which steps have been completed, what it ends with.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import moments
import numpy as np
import tensorflow as tf

import tfring
import tfring.callbacks
from tfring import engine

# For tests of errors of a worker's own.
FAIL_AT_STEP = int(os.environ.get("FAIL_AT_STEP", "-1"))
FAIL_RANK = int(os.environ.get("FAIL_RANK", "-1"))


class Events:
    """This process's file of events."""

    def __init__(self, directory: Path) -> None:
        # Unbuffered, so that what was written before a SIGKILL is there.
        path = directory / f"{os.getpid()}.jsonl"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, kind: str, **what: Any) -> None:
        place = engine.config()
        event = {
            "kind": kind,
            "time": time.monotonic(),
            "pid": os.getpid(),
            "rank": place.rank,
            "size": place.size,
            "generation": place.generation,
            **what,
        }
        os.write(self._file, (json.dumps(event) + "\n").encode())


class Bookkeeping(keras.Model):
    """Writes down the samples that each step begins with: data are ((image, index), label)."""

    events: Events
    state: Callable[[], Any]
    traces = 0

    def train_step(self, data: Any) -> Any:
        self.traces += 1
        (images, indices), labels = data

        def begin(indices: Any, step: Any) -> None:
            if engine.rehearsing():
                return  # alone, for nobody
            self.events.write("attempt", step=int(step), indices=indices.numpy().tolist())
            if step == 0:
                moments.die_while("first step")

        tf.py_function(begin, [indices, self.state().completed_steps_variable], [])
        return super().train_step((images, labels))

    def test_step(self, data: Any) -> Any:
        (images, _), labels = data
        return super().test_step((images, labels))

    def compute_loss(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        loss = super().compute_loss(x, y, *args, **kwargs)
        if not kwargs.get("training", True):
            return loss
        samples = tf.shape(y)[0]

        def note(value: Any, count: Any, step: Any) -> None:
            if not engine.rehearsing():
                self.events.write("loss", step=int(step), loss=float(value), samples=int(count))

        tf.py_function(note, [loss, samples, self.state().completed_steps_variable], [])
        return loss


class WriteSteps(keras.callbacks.Callback):  # type: ignore[misc]
    """Writes down each completed step and epoch."""

    def __init__(self, events: Events, state: Any, step_s: float) -> None:
        super().__init__()
        self._events, self._state, self._step_s = events, state, step_s

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        step = self._state.completed_steps
        self._events.write(
            "step", step=step, epoch=int(self._state.epoch), batch=batch, traces=self.model.traces
        )
        if step == FAIL_AT_STEP and tfring.rank() == FAIL_RANK and engine.config().generation == 1:
            raise RuntimeError("a bug of the user's")
        time.sleep(self._step_s)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs = {name: float(value) for name, value in (logs or {}).items()}
        self._events.write("epoch", epoch=epoch, logs=logs)


def classifier(image_shape: tuple[int, ...], classes: int) -> Bookkeeping:
    inputs = keras.Input(image_shape)
    x = keras.layers.Conv2D(16, 3, padding="same", activation="relu")(inputs)
    x = keras.layers.Conv2D(32, 3, padding="same", activation="relu")(x)
    x = keras.layers.MaxPooling2D()(x)
    x = keras.layers.Flatten()(x)
    x = keras.layers.Dense(64, activation="relu")(x)
    return Bookkeeping(inputs, keras.layers.Dense(classes)(x))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--global-batch-size", type=int, default=64)
    parser.add_argument("--step-s", type=float, default=0.0, help="pause after each step")
    parser.add_argument("--dtype", default="float32", help="float64 hardly rounds")
    parser.add_argument("--mixed-precision", action="store_true")
    parser.add_argument("--accumulate", type=int, help="steps an update of the weights")
    parser.add_argument("--validate", action="store_true", help="after each epoch")
    parser.add_argument("--logs", type=Path, help="directory for TensorBoard and checkpoints")
    return parser.parse_args()


def main() -> None:
    args = parse_arguments()
    tfring.init()
    moments.die_as_a_replacement()
    tfring.set_seed(1)
    keras.config.set_floatx(args.dtype)
    if args.mixed_precision:
        keras.mixed_precision.set_global_policy("mixed_float16")
    events = Events(Path(os.environ["EVENTS"]))
    digits = tfring.data.load_images("digits")
    images, labels = _arrays(digits.train)
    model = classifier(digits.image_shape, len(digits.class_names))
    model.events = events
    model.compile(
        tfring.DistributedOptimizer(
            keras.optimizers.Adam(2e-3, gradient_accumulation_steps=args.accumulate)
        ),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    sampler = tfring.elastic.Sampler(len(images), global_batch_size=args.global_batch_size, seed=1)
    state = tfring.elastic.KerasState(model, sampler=sampler, epoch=0, batch=0)
    model.state = lambda: state
    images_to_check, labels_to_check = _arrays(digits.validation)
    validation = ((images_to_check, np.arange(len(images_to_check))), labels_to_check)
    callbacks = [
        WriteSteps(events, state, args.step_s),
        moments.DieInCallbacks(),
        tfring.callbacks.BroadcastInitialVariables(),
        tfring.callbacks.AverageMetrics(),
        tfring.callbacks.CommitState(state, batches_per_commit=5),
    ]
    if args.logs is not None:
        checkpoints = args.logs / "epoch-{epoch:03}.keras"
        callbacks += [
            tfring.callbacks.TensorBoard(args.logs / "board"),
            tfring.callbacks.ModelCheckpoint(checkpoints),
        ]
    moments.die_while_committing()
    events.write("start")

    @tfring.elastic.run
    def train(state: Any) -> None:
        events.write("enter", epoch=int(state.epoch), batch=int(state.batch))
        moments.broadcast()
        model.fit(
            sampler.dataset(((images, np.arange(len(images))), labels)),
            epochs=args.epochs,
            initial_epoch=state.epoch,
            validation_data=validation if args.validate else None,
            verbose=0,
            callbacks=callbacks,
        )

    train(state)
    predicted = np.argmax(model.predict(images_to_check, verbose=0), axis=-1)
    digest = hashlib.sha256()
    for weight in model.get_weights():
        digest.update(np.ascontiguousarray(weight).tobytes())
    accuracy = float(np.mean(predicted == labels_to_check))
    events.write("done", accuracy=accuracy, digest=digest.hexdigest())


def _arrays(dataset: tf.data.Dataset) -> tuple[np.ndarray, np.ndarray]:
    images, labels = zip(*dataset.as_numpy_iterator(), strict=True)
    return np.stack(images).astype(keras.config.floatx()) / 255, np.array(labels)


if __name__ == "__main__":
    main()
