"""Image sets that lie in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfring.data.image_set import ImageSet


def image_set_of_arrays(
    name: str,
    class_names: Sequence[str],
    *,
    train: tuple[np.ndarray, np.ndarray],
    validation: tuple[np.ndarray, np.ndarray],
) -> ImageSet:
    """Makes an `ImageSet` of arrays.

    Args:
        name: What to call it.
        class_names: By label.
        train, validation: Images (uint8, [n, height, width, channels]) and labels (whole
            numbers, [n]).

    Raises:
        ValueError: Shapes or types are others, or a label has no name.
    """
    parts = []
    for kind, (images, labels) in (("train", train), ("validation", validation)):
        if images.dtype != np.uint8 or images.ndim != 4:
            raise ValueError(
                f"{name}, {kind}: expected uint8 images of shape [n, height, width, channels], "
                f"received {images.dtype} of shape {images.shape}"
            )
        if labels.shape != images.shape[:1]:
            raise ValueError(
                f"{name}, {kind}: {images.shape[0]} images, but labels of shape {labels.shape}"
            )
        if len(labels) and not 0 <= labels.min() <= labels.max() < len(class_names):
            raise ValueError(
                f"{name}, {kind}: labels from {labels.min()} to {labels.max()} for "
                f"{len(class_names)} classes"
            )
        parts.append(tf.data.Dataset.from_tensor_slices((images, labels.astype(np.int64))))
    if train[0].shape[1:] != validation[0].shape[1:]:
        raise ValueError(
            f"{name}: images for training have the shape {train[0].shape[1:]}, those for "
            f"validation {validation[0].shape[1:]}"
        )
    height, width, channels = train[0].shape[1:]
    return ImageSet(
        name=name,
        class_names=tuple(class_names),
        image_shape=(height, width, channels),
        train=parts[0],
        validation=parts[1],
        decode=lambda image: image,
    )
