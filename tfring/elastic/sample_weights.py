"""Weighting workers by the number of their samples, so that all samples of a step count alike.

The mean of the workers' mean losses is the mean over all samples only if all have equally many.
So the loss that gradients are taken of is multiplied by n size / N: n of N samples are this
worker's. The loss that is logged is not. Where a step of the user's takes gradients without
`scale_loss`, they are multiplied themselves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfring import ops
from tfring.elastic.sampler import Sampler
from tfring.weighing import weigh_by


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
    return loss * tf.cast(_weight(tf.cast(samples, tf.float64)), loss.dtype)


def _weight(own: tf.Tensor) -> tf.Tensor:
    return own / ops.allreduce(own, name="elastic/samples")


def weighted(
    step: Callable[[Any], Any], sampler: Sampler, completed: tf.Variable
) -> Callable[[Any], Any]:
    """A `train_step` of Keras whose gradients are weighted by the number of samples.

    Args:
        step: The plain one.
        sampler: Where the samples come from.
        completed: Counts completed steps.
    """

    @functools.wraps(step)
    @tf.autograph.experimental.do_not_convert
    def weighing(data: Any) -> Any:
        first = next(leaf for leaf in tf.nest.flatten(data) if leaf is not None)
        own = sampler.samples_that_count(tf.shape(first)[0], completed)
        with weigh_by(_weight(own)):
            return step(data)

    weighing.tfring_plain = step  # type: ignore[attr-defined]
    return weighing
