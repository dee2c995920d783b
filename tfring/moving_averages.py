"""Weights that are not trained but computed from data, and so differ from rank to rank."""

from __future__ import annotations

import hashlib
from typing import Any

import keras
import numpy as np

from tfring import arrays, engine


def average_moving_averages(model: Any, *, name: str = "moving_averages") -> int:
    """Gives all ranks the mean of what each has computed from its own data.

    BatchNormalization keeps moving averages of the mean and variance of its inputs. They
    have no gradients, so each rank has its own, and each would evaluate, save and serve a
    slightly different model. All ranks call this before they do; it does not touch training.

    Weights that are equal on all ranks stay as they are, to the bit. Of those that differ
    and are no floating point numbers all ranks get rank 0's.

    Example:

    >>> tfring.moving_averages.average_moving_averages(model)
    >>> model.evaluate(validation)

    Args:
        model: A `keras.Model`; its `non_trainable_weights` are what this is about.
        name: The same on every rank.

    Returns:
        How many weights differed.

    Raises:
        As `tfring.allreduce`.
    """
    weights = model.non_trainable_weights
    if engine.size() == 1 or not weights:
        return 0
    values = [np.ascontiguousarray(keras.ops.convert_to_numpy(weight)) for weight in weights]
    digests = b"".join(hashlib.sha256(value.tobytes()).digest() for value in values)
    own = np.frombuffer(digests, np.uint8).reshape(1, len(values), -1)
    everyone = arrays.allgather_array(own, name=f"{name}/digests")
    different = np.flatnonzero((everyone != everyone[0]).any(axis=(0, 2)))
    means = [i for i in different if np.issubdtype(values[i].dtype, np.floating)]
    copies = [i for i in different if i not in means]
    wide = [values[i].astype(np.float64) for i in means]
    results = arrays.allreduce_arrays(wide, name=f"{name}/means")
    results += arrays.broadcast_arrays([values[i] for i in copies], name=f"{name}/copies")
    for i, result in zip([*means, *copies], results, strict=True):
        weights[i].assign(result.astype(values[i].dtype))
    return len(different)
