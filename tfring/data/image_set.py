"""A labelled set of images, wherever it came from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

Augment = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


@dataclass(frozen=True)
class ImageSet:
    """Images of a number of classes, divided into training and validation.

    Attributes:
        name: What to call the set.
        class_names: By label; labels are 0 to `len(class_names) - 1`.
        image_shape: Height, width and channels of a decoded image.
        train: Yields (raw image, label), the label a scalar int64. What a raw image is only
            `decode` knows: the image itself, or the path of its file.
        validation: The same.
        decode: Makes a raw image a uint8 tensor of `image_shape`.
        skipped: Files that hold no image that can be decoded; they are in neither part.
    """

    name: str
    class_names: tuple[str, ...]
    image_shape: tuple[int, int, int]
    train: tf.data.Dataset
    validation: tf.data.Dataset
    decode: Callable[[tf.Tensor], tf.Tensor]
    skipped: tuple[str, ...] = ()

    def batches(
        self,
        part: tf.data.Dataset,
        batch_size: int,
        *,
        training: bool = False,
        augment: Augment | None = None,
        seed: int = 0,
    ) -> tf.data.Dataset:
        """Batches of decoded images, ready for a model.

        Decoding and augmentation run in parallel with the training, on the CPU.

        Example:

        >>> train = images.batches(tfring.data.shard(images.train), 32, training=True)

        Args:
            part: `train` or `validation`, or a shard of one.
            batch_size: Images a batch; the last one may be smaller.
            training: Shuffle, in each epoch anew.
            augment: Called with an image (float32, `image_shape`, 0 to 1) and a seed for
                TensorFlow's stateless random operations (int64, shape [2]) that is another
                for each image and epoch. Returns the image to train with.
            seed: Where shuffling and the seeds of `augment` start. Give each rank another.

        Returns:
            A dataset of (images, labels): float32 of shape [batch, *image_shape] from 0 to
            1, and int64 of shape [batch].
        """
        if training:
            part = part.shuffle(max(1, int(part.cardinality())), seed=seed)
        seeds = tf.data.Dataset.random(seed=seed, rerandomize_each_iteration=True).batch(2)

        def prepare(element: Any, image_seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            raw, label = element
            image = tf.ensure_shape(self.decode(raw), self.image_shape)
            image = tf.cast(image, tf.float32) / 255.0
            return image if augment is None else augment(image, image_seed), label

        # The longer of two zipped datasets is cut, so the number of elements stays known.
        parallel = tf.data.AUTOTUNE
        pairs = tf.data.Dataset.zip((part, seeds))
        return pairs.map(prepare, parallel).batch(batch_size).prefetch(parallel)
