"""The models of the examples: plain Keras, they know nothing of tfring."""

from __future__ import annotations

import math

import keras
from keras import layers


def build_model(name: str, image_shape: tuple[int, int, int], classes: int) -> keras.Model:
    """An image classifier that returns logits.

    Args:
        name: "cnn" or "resnet50".
        image_shape: Height, width and channels; values from 0 to 1.
        classes: Number of classes.
    """
    return {"cnn": build_cnn, "resnet50": build_resnet50}[name](image_shape, classes)


def build_cnn(image_shape: tuple[int, int, int], classes: int) -> keras.Model:
    """Convolutions and pooling until about 4x4 is left; 100,000 weights for the digits."""
    stages = min(5, max(2, round(math.log2(min(image_shape[:2]) / 4))))
    width = 32 if stages == 2 else 16  # large images would take long on a CPU
    inputs = keras.Input(image_shape)
    x = inputs
    for stage in range(stages):
        for _ in range(2):
            x = layers.Conv2D(min(256, width * 2**stage), 3, padding="same", use_bias=False)(x)
            x = layers.BatchNormalization(momentum=0.9)(x)
            x = layers.ReLU()(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Flatten()(x) if stages == 2 else layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.3)(x)
    x = layers.Dense(128, activation="relu")(x)
    x = layers.Dropout(0.3)(x)
    # Logits stay in float32 where the rest computes in float16.
    return keras.Model(inputs, layers.Dense(classes, dtype="float32")(x), name="cnn")


def build_resnet50(image_shape: tuple[int, int, int], classes: int) -> keras.Model:
    """ResNet-50 (He et al., 2015) with random weights. Small images are enlarged to 32x32."""
    height, width, channels = image_shape
    inputs = keras.Input(image_shape)
    x = inputs
    if min(height, width) < 32:
        height, width = max(height, 32), max(width, 32)
        x = layers.Resizing(height, width)(x)
    backbone = keras.applications.ResNet50(
        include_top=False, weights=None, input_shape=(height, width, channels), pooling="avg"
    )
    return keras.Model(inputs, layers.Dense(classes, dtype="float32")(backbone(x)), name="resnet50")
