"""A dataset of the batches that a sampler chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tfring.elastic.sample_sources import batches_of

_BATCHES_AHEAD = 4
# Batches whose indices Python hands over at once. The first come by themselves, so that the
# first step need not wait for those of others.
_AT_ONCE = 64

Indices = Callable[[], Iterable[np.ndarray]]


def sampled_batches(
    indices: Indices,
    source: Any,
    samples: int,
    *,
    load: Callable[..., Any] | None,
    augment: Callable[..., Any] | None,
) -> tf.data.Dataset:
    """Batches of a source.

    Args:
        indices: Called whenever the dataset is iterated; returns the indices of the samples of
            each batch.
        source, load, augment: As for `Sampler.dataset`.
        samples: How many the source must have.

    Returns:
        A dataset; its length is not known.
    """
    blocks = tf.data.Dataset.from_generator(
        lambda: _blocks(indices()),
        output_signature=(tf.TensorSpec([None], tf.int64), tf.TensorSpec([None], tf.int64)),
    )
    batches = blocks.flat_map(_batches).map(
        batches_of(source, samples, load, augment),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    return batches.prefetch(_BATCHES_AHEAD).with_options(_without_autotuning())


def _blocks(batches: Iterable[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batches, one after the other, and where each ends: 1, 2, 4, ... at once."""
    block: list[np.ndarray] = []
    at_once = 1
    for batch in batches:
        block.append(batch)
        if len(block) == at_once:
            yield _joined(block)
            block, at_once = [], min(2 * at_once, _AT_ONCE)
    if block:
        yield _joined(block)


def _joined(block: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate(block), np.cumsum([0, *map(len, block)], dtype=np.int64)


def _batches(indices: tf.Tensor, ends: tf.Tensor) -> tf.data.Dataset:
    limits = tf.data.Dataset.from_tensor_slices((ends[:-1], ends[1:]))
    return limits.map(lambda first, last: indices[first:last])


def _without_autotuning() -> tf.data.Options:
    """At its end an iterator waits for the thread that tunes it, which may sleep for seconds."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return options
