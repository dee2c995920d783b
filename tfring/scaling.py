"""Multiplying a tensor by a plain number, as the engine does it."""

from __future__ import annotations

import tensorflow as tf


def scale(tensor: tf.Tensor, factor: float) -> tf.Tensor:
    """`tensor * factor` in the tensor's own type; integers are truncated toward zero."""
    if factor == 1.0:
        return tensor
    if tensor.dtype.is_floating:
        return tensor * tf.cast(factor, tensor.dtype)
    return tf.cast(tf.cast(tensor, tf.float64) * factor, tensor.dtype)
