"""Copies of variables that cost nothing until a variable is changed in place.

TensorFlow's variables share the memory of what is assigned to them and copy it when they are
changed in place. So to save a variable is to pass on a reference, in the graph as outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf


def native(variable: Any) -> tf.Variable:
    """The `tf.Variable` of a `keras.Variable`."""
    value = getattr(variable, "value", variable)
    return variable if callable(value) else value


class SavedValues:
    """A second set of variables for a changing list of variables."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[tf.Variable, tf.Variable]] = {}

    @tf.autograph.experimental.do_not_convert
    def save(self, variables: Sequence[tf.Variable]) -> None:
        """Saves the values of now; eagerly, or whenever the function being traced runs."""
        for variable in variables:
            self._copy_of(variable).assign(variable, read_value=False)

    def prepare(self, variables: Sequence[tf.Variable]) -> None:
        """Makes room for variables that may be saved later."""
        for variable in variables:
            self._copy_of(variable)

    def put_back(self, variables: Sequence[tf.Variable]) -> None:
        """Gives variables the values that were saved; eagerly."""
        for variable in variables:
            if id(variable) in self._copies:
                variable.assign(self._copies[id(variable)][1], read_value=False)

    def of(self, variable: tf.Variable) -> tf.Variable | None:
        """Where a variable's value is saved."""
        found = self._copies.get(id(variable))
        return None if found is None else found[1]

    def _copy_of(self, variable: tf.Variable) -> tf.Variable:
        # The variable is kept too, or its id could become another one's.
        if id(variable) not in self._copies:
            # Of unknown shape, so that a copy that is never used takes no memory.
            with tf.init_scope(), tf.device(variable.device):
                copy = tf.Variable(
                    np.zeros([0], variable.dtype.as_numpy_dtype),
                    dtype=variable.dtype,
                    shape=tf.TensorShape(None),
                    trainable=False,
                    name="tfring_saved",
                )
            self._copies[id(variable)] = (variable, copy)
        return self._copies[id(variable)][1]


def initialise(variables: Sequence[tf.Variable]) -> None:
    """Gives a value to variables that have none.

    A function that makes variables when it is traced gives them their values when it has run. A
    newcomer's rehearsal has ended before that; the values come from others then.
    """
    for variable in variables:
        if not bool(tf.raw_ops.VarIsInitializedOp(resource=variable.handle)):
            variable.assign(tf.zeros(variable.shape, variable.dtype), read_value=False)
