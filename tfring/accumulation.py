"""One reduction per update for optimizers that accumulate gradients.

Keras adds up the gradients of `gradient_accumulation_steps` calls in variables of the
optimizer and, in the last of them, applies the mean of the sum and that call's gradients:

    calls 1 to n-1      accumulator += gradient
    call n              update with (accumulator + gradient) / n;  accumulator = 0

Ranks keep their accumulators to themselves. In call n we do Keras's sum before Keras, reduce
it, and empty the accumulators, so that Keras adds zero to what it is given:

    call n              gradient = reduce(accumulator + gradient);  accumulator = 0

All gradients are still reduced before any variable changes, and clipping and all else in
Keras sees reduced gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfring import keras_hooks
from tfring.reduce_op import ReduceOp
from tfring.reduction import GradientReduction


@tf.autograph.experimental.do_not_convert
def reduce_once_per_update(
    reduction: GradientReduction,
    optimizer: Any,
    accumulating: Any,
    gradients: Sequence[Any],
    variables: Sequence[Any],
) -> list[Any]:
    """Reduces in the last call of an update and returns the gradients as they are in others.

    Under loss scaling each call may be skipped, which the ranks must agree on: one number
    is reduced per call.

    Args:
        reduction: How to reduce.
        optimizer: The optimizer that was called.
        accumulating: The one that accumulates; the same, or inside a LossScaleOptimizer.
        gradients: As passed to `apply`.
        variables: One for each gradient.

    Returns:
        Gradients to hand to Keras; dense, since Keras makes them so in any case.
    """
    present = [index for index, gradient in enumerate(gradients) if gradient is not None]
    own = [tf.convert_to_tensor(gradients[index]) for index in present]
    used = [variables[index] for index in present]
    sums = keras_hooks.accumulators(accumulating, used)
    scale = keras_hooks.gradient_scale(optimizer)
    update = keras_hooks.completes_update(accumulating)
    finite = None
    if keras_hooks.loss_scaled(optimizer):
        finite = _finite_everywhere(reduction, optimizer.check_finite(own))
        update = tf.logical_and(update, finite)

    def reduce() -> list[tf.Tensor]:
        totals = [
            _total(gradient, tf.convert_to_tensor(accumulator), variable, scale)
            for gradient, accumulator, variable in zip(own, sums, used, strict=True)
        ]
        reduced = reduction.reduce_for(used, totals)
        with tf.control_dependencies(reduced):
            for accumulator in sums:
                accumulator.assign(tf.zeros(accumulator.shape, accumulator.dtype))
        return reduced

    handed_on = tf.cond(update, reduce, lambda: [tf.identity(gradient) for gradient in own])
    if finite is not None:
        _spoil_unless(finite, handed_on)
    results: list[Any] = [None] * len(gradients)
    for index, gradient in zip(present, handed_on, strict=True):
        results[index] = gradient
    return results


def _total(
    gradient: tf.Tensor, accumulated: tf.Tensor, variable: Any, scale: tf.Tensor | None
) -> tf.Tensor:
    """The sum of an update's gradients, in the scale of the last one."""
    if keras_hooks.overwritten_by_gradient(variable):
        return tf.maximum(gradient, tf.cast(accumulated, gradient.dtype))
    if scale is not None:
        # Loss scales are powers of two, so nothing is rounded here.
        accumulated = accumulated * tf.cast(scale, accumulated.dtype)
    return gradient + tf.cast(accumulated, gradient.dtype)


def _finite_everywhere(reduction: GradientReduction, finite: Any) -> tf.Tensor:
    flag = tf.cast(finite, tf.int32)
    return tf.cast(reduction.allreduce([flag], "finite", ReduceOp.MIN)[0], tf.bool)


def _spoil_unless(finite: tf.Tensor, gradients: list[tf.Tensor]) -> None:
    """Makes Keras's finite check fail on a rank whose own gradients were fine."""
    for index, gradient in enumerate(gradients):
        if gradient.dtype.is_floating and gradient.shape.num_elements() != 0:
            nan = tf.constant(float("nan"), gradient.dtype)
            gradients[index] = tf.where(finite, gradient, nan)
            return
