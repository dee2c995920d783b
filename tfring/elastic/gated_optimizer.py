"""A gate for optimizers that reduce nothing themselves.

In a loop of one's own `DistributedGradientTape` reduces and an optimizer of Keras applies.
Keras would then change a variable as soon as its own gradient is there, and the number of
iterations at once. For steps to be atomic all must wait for all gradients, as they do in
`ReducingOptimizer.apply`.
"""

from __future__ import annotations

import types
from typing import Any

import tensorflow as tf

from tfring.reduction import components


class GatedOptimizer:
    """What `gate` adds to an optimizer's class. Not for direct use."""

    tfring_on_update: Any = None
    tfring_plain_class: type

    # As for ReducingOptimizer: Keras saves and looks up its own class.
    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self).tfring_plain_class

    @tf.autograph.experimental.do_not_convert
    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        """Applies gradients when all are there; see `keras.optimizers.Optimizer.apply`."""
        base: Any = super()
        grads = list(grads)
        if not grads:
            return base.apply(grads, trainable_variables)
        with tf.control_dependencies(_all_there(grads)):
            if self.tfring_on_update is not None:
                self.tfring_on_update()
            return base.apply(grads, trainable_variables)


def gate(optimizer: Any) -> Any:
    """Makes an optimizer of Keras wait for all gradients before it changes any variable."""
    plain = type(optimizer)
    if issubclass(plain, GatedOptimizer):
        return optimizer
    attributes = {
        "__module__": plain.__module__,
        "__doc__": plain.__doc__,
        "tfring_plain_class": plain,
    }
    gated = types.new_class(
        f"Gated{plain.__name__}", (GatedOptimizer, plain), exec_body=lambda b: b.update(attributes)
    )
    object.__setattr__(optimizer, "__class__", gated)
    return optimizer


def _all_there(gradients: list[Any]) -> list[Any]:
    if tf.executing_eagerly():
        return []
    with tf.control_dependencies(list(components(gradients))):
        return [tf.no_op("tfring_all_there")]
