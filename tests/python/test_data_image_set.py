"""Batches of images, and the digits."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfring.data import load_digits
from tfring.data.array_images import image_set_of_arrays


def small_set(total: int = 10):
    images = np.arange(total, dtype=np.uint8).reshape(total, 1, 1, 1) * np.ones(
        (1, 2, 2, 1), np.uint8
    )
    labels = np.arange(total) % 3
    return image_set_of_arrays(
        "small", "abc", train=(images, labels), validation=(images[:2], labels[:2])
    )


def order(dataset: tf.data.Dataset) -> list[int]:
    return [round(float(image[0, 0, 0]) * 255) for batch, _ in dataset for image in batch.numpy()]


def test_the_digits_are_real_images() -> None:
    pytest.importorskip("sklearn")
    images = load_digits()
    assert (len(images.train), len(images.validation)) == (1437, 360)
    assert images.image_shape == (8, 8, 1) and len(images.class_names) == 10
    x, y = next(iter(images.batches(images.validation, 360)))
    assert x.shape == (360, 8, 8, 1)
    assert 0 <= float(tf.reduce_min(x)) < float(tf.reduce_max(x)) <= 1
    assert set(y.numpy()) == set(range(10))


def test_batches_have_a_known_length_and_all_images() -> None:
    images = small_set()
    batches = images.batches(images.train, 4)
    assert int(batches.cardinality()) == 3
    assert order(batches) == list(range(10))


def test_training_batches_are_shuffled_in_each_epoch_anew() -> None:
    images = small_set()
    batches = images.batches(images.train, 4, training=True, seed=1)
    first, second = order(batches), order(batches)
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second
    assert int(batches.cardinality()) == 3


def test_augmentation_gets_another_seed_for_each_image_and_epoch() -> None:
    images = small_set()

    def augment(image: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        assert image.shape == (2, 2, 1) and image.dtype == tf.float32
        return image + tf.random.stateless_uniform(image.shape[:0], seed)

    batches = images.batches(images.train, 4, augment=augment, seed=5)
    epochs = [np.concatenate([x.numpy() for x, _ in batches]) for _ in range(2)]
    drawn = [x[:, 0, 0, 0] - np.arange(10) / 255 for x in epochs]
    assert len(set(np.round(np.concatenate(drawn), 6))) == 20


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (np.zeros((3, 2, 2, 1)), np.zeros(3, int), "received float64"),
        (np.zeros((3, 2, 2), np.uint8), np.zeros(3, int), r"shape \(3, 2, 2\)"),
        (np.zeros((3, 2, 2, 1), np.uint8), np.zeros(4, int), r"labels of shape \(4,\)"),
        (np.zeros((3, 2, 2, 1), np.uint8), np.full(3, 7), "labels from 7 to 7 for 2 classes"),
    ],
)
def test_wrong_arrays_are_refused(images, labels, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        image_set_of_arrays("set", "ab", train=(images, labels), validation=(images, labels))
