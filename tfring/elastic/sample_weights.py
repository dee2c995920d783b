"""Weighting workers by the number of their samples, so that all samples of a step count alike.

The mean of the workers' mean losses is the mean over all samples only if all have equally many.
So the loss that gradients are taken of is multiplied by n size / N: n of N samples are this
worker's. The loss that is logged is not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfring import ops
from tfring.reducing_optimizer import weigh_losses_by


@tf.autograph.experimental.do_not_convert
def weigh_loss(loss: tf.Tensor, samples: Any) -> tf.Tensor:
    """The loss to take gradients of, when workers have different numbers of samples.

    With `KerasState` and a `Sampler` that has a `global_batch_size`, `fit` does that by itself.
    In a training loop of one's own:

    >>> with tfring.DistributedGradientTape(tf.GradientTape()) as tape:
    ...     loss = loss_of(y, model(x, training=True))
    ...     weighted = tfring.elastic.weigh_loss(loss, tf.shape(x)[0])
    >>> gradients = tape.gradient(weighted, model.trainable_variables)

    Args:
        loss: The mean over this worker's samples, a scalar.
        samples: How many these are.

    Returns:
        The loss times samples / (mean number of samples of all workers).

    Raises:
        As `tfring.allreduce`.
    """
    return loss * tf.cast(_weight(samples), loss.dtype)


def _weight(samples: Any) -> tf.Tensor:
    own = tf.cast(samples, tf.float64)
    return own / ops.allreduce(own, name="elastic/samples")


def weighted(step: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A `train_step` of Keras whose gradients are weighted by the number of samples."""

    @functools.wraps(step)
    @tf.autograph.experimental.do_not_convert
    def weighing(data: Any) -> Any:
        first = next(leaf for leaf in tf.nest.flatten(data) if leaf is not None)
        with weigh_losses_by(_weight(tf.shape(first)[0])):
            return step(data)

    weighing.tfring_plain = step  # type: ignore[attr-defined]
    return weighing
