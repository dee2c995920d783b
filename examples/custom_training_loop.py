"""Train an image classifier with a training loop of one's own, on one or several processes.

    tfringrun -np 2 python custom_training_loop.py

What train_image_classifier.py leaves to model.fit, step by step: tf.function, a gradient
tape, and metrics that are added up over the processes. tfring has six places here:

    1  join the other processes
    2  take this process's share of the data
    3  begin with the same weights and optimizer state
    4  average the gradients over all processes
    5  average what BatchNormalization has seen before validation
    6  compute metrics over the data of all processes
"""

from __future__ import annotations

import argparse
import time

import keras
import tensorflow as tf
from image_models import build_model

import tfring
from tfring.monitoring import global_state
from tfring.moving_averages import average_moving_averages
from tfring.seed import rank_seed
from tfring.variables import assert_identical, training_state


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", default="digits", help="'digits' or a directory (default: digits)")
    add("--epochs", type=int, default=12, help="(default: 12)")
    add("--batch-size", type=int, default=32, help="images a step in each process (default: 32)")
    add("--learning-rate", type=float, default=1e-3, help="for one process (default: 0.001)")
    add("--seed", type=int, default=1, help="(default: 1)")
    return parser.parse_args()


def main() -> None:
    args = parse_arguments()
    tfring.init()  # tfring: 1
    tfring.set_seed(args.seed)

    images = tfring.data.load_images(args.data)
    train = images.batches(
        tfring.data.shard(images.train),  # tfring: 2
        args.batch_size,
        training=True,
        seed=rank_seed(args.seed),
    )
    validation = images.batches(
        tfring.data.shard(images.validation, remainder="keep"),  # tfring: 2
        args.batch_size,
    )

    model = build_model("cnn", images.image_shape, len(images.class_names))
    optimizer = keras.optimizers.Adam(args.learning_rate * tfring.size())
    optimizer.build(model.trainable_variables)
    tfring.broadcast_variables([*model.weights, *optimizer.variables])  # tfring: 3

    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    loss = keras.metrics.Mean("loss")
    accuracy = keras.metrics.SparseCategoricalAccuracy("accuracy")

    @tf.function
    def train_step(x: tf.Tensor, y: tf.Tensor) -> None:
        with tfring.DistributedGradientTape(tf.GradientTape()) as tape:  # tfring: 4
            logits = model(x, training=True)
            value = loss_of(y, logits)
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        loss.update_state(value, sample_weight=tf.shape(x)[0])
        accuracy.update_state(y, logits)

    @tf.function
    def test_step(x: tf.Tensor, y: tf.Tensor) -> None:
        logits = model(x, training=False)
        loss.update_state(loss_of(y, logits), sample_weight=tf.shape(x)[0])
        accuracy.update_state(y, logits)

    def results() -> str:
        with global_state([loss, accuracy]):  # tfring: 6
            text = f"loss {float(loss.result()):.4f}, accuracy {float(accuracy.result()):.2%}"
        loss.reset_state()
        accuracy.reset_state()
        return text

    for epoch in range(args.epochs):
        start = time.perf_counter()
        for x, y in train:
            train_step(x, y)
        training = results()
        average_moving_averages(model)  # tfring: 5
        for x, y in validation:
            test_step(x, y)
        testing = results()
        if tfring.rank() == 0:
            took = time.perf_counter() - start
            print(f"Epoch {epoch + 1}: {training}; validation: {testing} ({took:.1f} s)")

    assert_identical(training_state(model) + list(optimizer.variables))
    if tfring.rank() == 0:
        print(f"Bit-identical weights on all of {tfring.size()} processes")


if __name__ == "__main__":
    main()
