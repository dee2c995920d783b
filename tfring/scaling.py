"""Multiplying a tensor by a plain number, as the engine does it."""

from __future__ import annotations

import tensorflow as tf


def scale(tensor: tf.Tensor, factor: float) -> tf.Tensor:
    """`tensor * factor` in the tensor's own type.

    Half types are multiplied in float32 and rounded once, integers in float64 and truncated
    toward zero.
    """
    if factor == 1.0:
        return tensor
    if tensor.dtype in (tf.float32, tf.float64):
        return tensor * tf.constant(factor, tensor.dtype)
    wide = tf.float32 if tensor.dtype.is_floating else tf.float64
    return tf.cast(tf.cast(tensor, wide) * tf.constant(factor, wide), tensor.dtype)
