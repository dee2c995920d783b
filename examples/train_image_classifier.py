"""Train an image classifier on one or several processes.

    python train_image_classifier.py                              # one process
    tfringrun -np 2 python train_image_classifier.py              # two, on this machine
    tfringrun -np 8 -H one:4,two:4 python train_image_classifier.py --data flowers

A usual Keras 3 script with model.fit, and tfring in four places, marked by numbers:

    1  join the other processes
    2  take this process's share of the data
    3  average the gradients over all processes
    4  begin with the same weights, and compute metrics over all data

Data: scikit-learn's handwritten digits (the default), a directory with IDX files such as
Fashion-MNIST's, or one with a directory of JPEG and PNG files for each class.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

import keras
import tensorflow as tf
from image_models import build_model

import tfring
from tfring.seed import rank_seed
from tfring.variables import weights_digest


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", default="digits", help="'digits' or a directory (default: digits)")
    add("--image-size", type=int, default=224, help="pixels, for image folders (default: 224)")
    add("--model", choices=["cnn", "resnet50"], default="cnn", help="(default: cnn)")
    add("--epochs", type=int, default=12, help="(default: 12)")
    add("--batch-size", type=int, default=32, help="images a step in each process (default: 32)")
    add("--learning-rate", type=float, default=0.02, help="for one process (default: 0.02)")
    add("--warmup-epochs", type=float, default=2, help="(default: 2)")
    add("--gradient-accumulation", type=int, metavar="STEPS", help="steps to an update")
    add("--mixed-precision", action="store_true", help="compute in float16")
    add("--flip", action="store_true", help="mirror images at random; not for digits")
    add("--log-dir", type=Path, default=Path("logs"), help="for TensorBoard (default: logs)")
    add("--checkpoint-dir", type=Path, help="save the model after each epoch, keep the last 3")
    add("--resume", action="store_true", help="go on from the newest checkpoint")
    add("--seed", type=int, default=1, help="(default: 1)")
    arguments = parser.parse_args()
    if arguments.resume and arguments.checkpoint_dir is None:
        parser.error("--resume needs --checkpoint-dir")
    return arguments


def augmentation(flip: bool) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """Moves an image by up to an eighth of its size, and mirrors it if that is wanted."""

    def augment(image: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        height, width, _ = image.shape
        padded = tf.pad(image, [[height // 8] * 2, [width // 8] * 2, [0, 0]])
        image = tf.image.stateless_random_crop(padded, image.shape, seed)
        return tf.image.stateless_random_flip_left_right(image, seed) if flip else image

    return augment


def newest_checkpoint(directory: Path) -> tuple[Path | None, int]:
    """The file of the last epoch that was completed, and how many were."""
    found = {}
    for path in directory.glob("epoch-*.keras"):
        if match := re.fullmatch(r"epoch-(\d+)\.keras", path.name):
            found[int(match[1])] = path
    return (found[max(found)], max(found)) if found else (None, 0)


def main() -> None:
    args = parse_arguments()

    tfring.init()  # tfring: 1
    tfring.set_seed(args.seed)
    first = tfring.rank() == 0  # this process reports for all
    if args.mixed_precision:
        keras.mixed_precision.set_global_policy("mixed_float16")

    images = tfring.data.load_images(args.data, image_size=(args.image_size, args.image_size))
    train = images.batches(
        tfring.data.shard(images.train),  # tfring: 2
        args.batch_size,
        training=True,
        augment=augmentation(args.flip),
        seed=rank_seed(args.seed),
    )
    validation = images.batches(
        tfring.data.shard(images.validation, remainder="keep"),  # tfring: 2
        args.batch_size,
    )

    model = build_model(args.model, images.image_shape, len(images.class_names))
    # N processes make batches N times as large, which bear an N times higher rate.
    rate = args.learning_rate * tfring.size()
    optimizer = keras.optimizers.SGD(
        rate, momentum=0.9, nesterov=True, gradient_accumulation_steps=args.gradient_accumulation
    )
    model.compile(
        optimizer=tfring.DistributedOptimizer(optimizer),  # tfring: 3
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )

    callbacks = [
        tfring.callbacks.BroadcastInitialVariables(),  # tfring: 4
        tfring.callbacks.AverageMetrics(),  # tfring: 4
        # Useful, but not needed:
        tfring.callbacks.LearningRateWarmup(args.learning_rate, warmup_epochs=args.warmup_epochs),
        tfring.callbacks.LearningRateSchedule(
            {round(0.6 * args.epochs): rate / 10, round(0.85 * args.epochs): rate / 100}
        ),
        tfring.callbacks.TensorBoard(args.log_dir),
    ]
    done = 0
    if args.checkpoint_dir is not None:
        callbacks.append(
            tfring.callbacks.ModelCheckpoint(
                args.checkpoint_dir / "epoch-{epoch:03d}.keras", keep=3
            )
        )
    if args.resume and first:
        # The others get weights and optimizer state from this process.
        path, done = newest_checkpoint(args.checkpoint_dir)
        if path is not None:
            model.load_weights(path)
            print(f"Going on after epoch {done}, from {path}")
    done = tfring.broadcast_object(done)

    if first:
        print(
            f"{images.name}: {len(images.train)} images for training, {len(images.validation)} "
            f"for validation, {len(images.class_names)} classes; {model.name} with "
            f"{model.count_params():,} weights; {tfring.size()} processes"
        )
    progress = 1 if sys.stdout.isatty() else 2
    model.fit(
        train,
        validation_data=validation,
        epochs=args.epochs,
        initial_epoch=done,
        callbacks=callbacks,
        shuffle=False,  # `batches` shuffles
        verbose=progress if first else 0,
    )

    results = model.evaluate(
        validation, callbacks=[tfring.callbacks.AverageMetrics()], verbose=0, return_dict=True
    )
    digests = tfring.allgather_object(weights_digest(model.weights))
    if first:
        print(f"\nValidation accuracy: {results['accuracy']:.2%}, loss {results['loss']:.4f}")
        for rank, digest in enumerate(digests):
            print(f"Weights of rank {rank}: SHA-256 {digest}")
        same = len(set(digests)) == 1
        print(f"All ranks have bit-identical weights: {'yes' if same else 'NO'}")
        print(f"Curves: tensorboard --logdir {args.log_dir}")
    if len(set(digests)) > 1:
        sys.exit("the ranks have different weights")


if __name__ == "__main__":
    main()
