"""A Keras optimizer that reduces gradients over the ranks before it does anything else.

Everything that Keras does with gradients (the finite check of loss scaling, accumulation,
clipping, weight decay, moving averages, the update itself) happens in or below `apply`. So
`apply` is the one method to extend: reduce first, then let Keras go on with gradients that
are the same on every rank. All ranks then decide alike, whatever Keras decides.

Steps are atomic: in a graph nothing that Keras's `apply` does may run before all gradients
have been reduced. A rank that fails on the way has not begun to change any variable.
"""

from __future__ import annotations

import contextlib
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from tfring import keras_hooks
from tfring.accumulation import reduce_once_per_update
from tfring.errors import InvalidArgumentError
from tfring.health_checks import end_step_early
from tfring.reduction import GradientReduction, components, reduced_already
from tfring.weighing import weigh_gradients, weigh_loss_of

# Per thread: ids of the optimizers that are applying gradients which have been reduced.
_applying = threading.local()


class ReducingOptimizer:
    """What `distribute` adds to an optimizer's class. Not for direct use.

    Attributes:
        tfring_reduction: How gradients are reduced.
        tfring_plain_class: The class without this one.
        tfring_on_update: Called behind the gate of each update; None: nothing is.
    """

    tfring_reduction: GradientReduction
    tfring_plain_class: type
    tfring_on_update: Callable[[], None] | None = None

    # Keras saves `optimizer.__class__`. It must find its own class there: a saved model loads
    # where tfring is not installed, and user-defined optimizers are found in Keras's registry.
    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self).tfring_plain_class

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        """Reduces the gradients and applies them; see `keras.optimizers.Optimizer.apply`."""
        base: Any = super()
        grads = list(grads)
        if id(self) in _ids() or not grads:
            # An optimizer around this one has reduced them.
            return base.apply(grads, trainable_variables)
        require_one_replica()
        given = None if trainable_variables is None else list(trainable_variables)
        if given is not None and not self.built:  # type: ignore[has-type]
            self.build(given)  # type: ignore[attr-defined]
            self.built = True
        variables = keras_hooks.known_variables(self) if given is None else given
        if len(grads) != len(variables):
            raise ValueError(
                f"expected as many gradients as variables, received {len(grads)} gradients "
                f"for {len(variables)} variables"
            )
        family = [self, *adopt_inner_optimizers(self)]
        if not reduced_already(grads):
            end_step_early()
            grads = reduce_gradients(self, weigh_gradients(variables, grads, self), variables)
        # With nobody to reduce with, and nothing that counts, there is nothing to wait for.
        gated = self.tfring_on_update is not None or not self.tfring_reduction.alone()
        with _reduced(family), tf.control_dependencies(_gate(grads) if gated else []):
            if self.tfring_on_update is not None:
                self.tfring_on_update()
            return base.apply(grads, given)

    def scale_loss(self, loss: Any) -> Any:
        """What gradients are taken of; see `keras.optimizers.Optimizer.scale_loss`."""
        base: Any = super()
        return weigh_loss_of(self, base.scale_loss(loss))

    def update_step(self, *args: Any, **kwargs: Any) -> Any:
        """One variable's part of `apply`.

        Raises:
            InvalidArgumentError: It was called by itself, with a gradient that nobody has
                reduced.
        """
        if id(self) not in _ids():
            raise InvalidArgumentError(
                "update_step of a DistributedOptimizer was called directly; its gradient has "
                "not been reduced. Call apply(gradients, variables) with all gradients"
            )
        base: Any = super()
        return base.update_step(*args, **kwargs)

    def __reduce__(self) -> Any:
        # As with Keras's own optimizers the configuration survives, the state does not.
        config = self.get_config()  # type: ignore[attr-defined]
        return _rebuild, (self.tfring_plain_class, config, self.tfring_reduction)


def distribute(optimizer: Any, reduction: GradientReduction) -> Any:
    """Makes an optimizer, and those it delegates to, reduce gradients; in place.

    In place keeps what a copy by configuration would lose: its state, its exclusions from
    weight decay, a learning rate that is a function. And no copy is left which would apply
    gradients that nobody has reduced.
    """
    plain = type(optimizer)
    attributes = {
        "__module__": plain.__module__,
        "__doc__": plain.__doc__,
        "tfring_reduction": reduction,
        "tfring_plain_class": plain,
    }
    bases = (ReducingOptimizer, plain)
    reducing = types.new_class(
        f"Distributed{plain.__name__}", bases, exec_body=lambda body: body.update(attributes)
    )
    object.__setattr__(optimizer, "__class__", reducing)
    adopt_inner_optimizers(optimizer)
    keras_hooks.on_loss_scale_optimizer(_adopt_loss_scaling)
    return optimizer


def is_distributed(optimizer: Any) -> bool:
    """Whether an object is an optimizer that reduces gradients."""
    return issubclass(type(optimizer), ReducingOptimizer)


def adopt_inner_optimizers(optimizer: Any) -> list[Any]:
    """Makes the optimizers that one delegates to distributed too, and returns them.

    They leave reducing to the outermost one, unless they are called by themselves.
    """
    inner = keras_hooks.inner_optimizers(optimizer)
    for one in inner:
        if not is_distributed(one):
            distribute(one, optimizer.tfring_reduction)
    return inner


def reduce_gradients(
    optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any]
) -> list[Any]:
    """What `optimizer` should apply on every rank instead of its own gradients."""
    reduction: GradientReduction = optimizer.tfring_reduction
    if reduction.alone():
        return list(gradients)
    accumulating = keras_hooks.accumulating_optimizer(optimizer)
    if accumulating is None:
        return reduction.reduce_for(variables, gradients)
    return reduce_once_per_update(reduction, optimizer, accumulating, gradients, variables)


def require_one_replica() -> None:
    """Refuses the strategies of tf.distribute, which run several replicas in one process.

    Raises:
        InvalidArgumentError: There is more than one.
    """
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    if replicas != 1:
        raise InvalidArgumentError(
            f"tfring trains one replica per process, but a tf.distribute strategy runs "
            f"{replicas} here. Leave the strategy out and start one process per device"
        )


def _gate(gradients: Sequence[Any]) -> list[Any]:
    """What every change of a variable has to wait for: one operation, all gradients."""
    if tf.executing_eagerly():
        return []
    with tf.control_dependencies(list(components(gradients))):
        return [tf.no_op("tfring_all_reduced")]


def _ids() -> set[int]:
    if not hasattr(_applying, "ids"):
        _applying.ids = set()
    return _applying.ids


@contextlib.contextmanager
def _reduced(optimizers: Sequence[Any]) -> Iterator[None]:
    """While it is open, these optimizers apply what they are given."""
    added = {id(optimizer) for optimizer in optimizers} - _ids()
    _ids().update(added)
    try:
        yield
    finally:
        _ids().difference_update(added)


def _adopt_loss_scaling(loss_scaling: Any) -> None:
    inner = loss_scaling.inner_optimizer
    if is_distributed(inner) and not is_distributed(loss_scaling):
        distribute(loss_scaling, inner.tfring_reduction)


def _rebuild(plain: Any, config: dict[str, Any], reduction: GradientReduction) -> Any:
    return distribute(plain.from_config(config), reduction)
