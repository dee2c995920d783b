"""Train an image classifier that survives killed workers, and takes in new ones.

    tfringrun -np 3 --min-np 1 python elastic_training.py

While it runs, kill a worker (`kill -9 PID`; each tells its PID): the others go on within a
fraction of a second, and a replacement joins when it is ready. docs/elastic.md says what is
promised. tfring has five places here:

    1  join the other processes
    2  reduce gradients
    3  divide the samples, whoever is there
    4  say what has to survive
    5  go on after each change
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import keras
import numpy as np
from image_models import build_model

import tfring


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", default="digits", help="'digits' or a directory (default: digits)")
    add("--epochs", type=int, default=60, help="(default: 60)")
    add("--batch-size", type=int, default=96, help="images a step, of all workers (default: 96)")
    add("--learning-rate", type=float, default=2e-3, help="(default: 0.002)")
    add("--seed", type=int, default=1, help="(default: 1)")
    return parser.parse_args()


def arrays(dataset: Any) -> tuple[np.ndarray, np.ndarray]:
    """Images from 0 to 1, and labels."""
    images, labels = zip(*dataset.as_numpy_iterator(), strict=True)
    return np.stack(images).astype(np.float32) / 255, np.array(labels)


def main() -> None:
    args = parse_arguments()
    tfring.init()  # tfring: 1
    tfring.set_seed(args.seed)

    data = tfring.data.load_images(args.data)
    images, labels = arrays(data.train)
    validation = arrays(data.validation)

    model = build_model("cnn", data.image_shape, len(data.class_names))
    model.compile(
        tfring.DistributedOptimizer(keras.optimizers.Adam(args.learning_rate)),  # tfring: 2
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    sampler = tfring.elastic.Sampler(  # tfring: 3
        len(images), global_batch_size=args.batch_size, seed=args.seed
    )
    state = tfring.elastic.KerasState(model, sampler=sampler, epoch=0, batch=0)  # tfring: 4

    @tfring.elastic.run  # tfring: 5
    def train(state: Any) -> None:
        print(f"Process {os.getpid()} is rank {tfring.rank()} of {tfring.size()}", flush=True)
        model.fit(
            sampler.dataset((images, labels)),
            epochs=args.epochs,
            initial_epoch=state.epoch,
            verbose=2 if tfring.rank() == 0 else 0,
            callbacks=[
                tfring.callbacks.AverageMetrics(),
                tfring.callbacks.CommitState(state, batches_per_commit=50),
            ],
        )

    train(state)
    if tfring.rank() == 0:
        _, accuracy = model.evaluate(*validation, verbose=0)
        changes = len(tfring.elastic.recoveries()) - 1
        print(f"Validation accuracy: {accuracy:.2%} after {changes} changes of membership")


if __name__ == "__main__":
    main()
