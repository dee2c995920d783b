"""All that tfring uses of Keras and that Keras does not promise to keep.

Everything here has been the same from Keras 3.5 to 3.15; tests/python/test_keras_hooks.py
says so for the Keras at hand. Whoever mends tfring for a new Keras starts here.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

try:
    from keras.src.backend.tensorflow.trainer import TFEpochIterator as EpochIterator
except ImportError:  # a Keras that moved it: then epochs that are entered again set the length
    EpochIterator = None

# Not in older releases.
_MultiOptimizer = getattr(keras.optimizers, "MultiOptimizer", ())


def loss_scaled(optimizer: Any) -> bool:
    """Whether it is a `LossScaleOptimizer`, which skips steps whose gradients overflow."""
    return isinstance(optimizer, keras.optimizers.LossScaleOptimizer)


def inner_optimizers(optimizer: Any) -> list[Any]:
    """The optimizers that one delegates to; `MultiOptimizer` may know them once it is built."""
    if loss_scaled(optimizer):
        inner = optimizer.inner_optimizer
        return [inner, *inner_optimizers(inner)]
    if isinstance(optimizer, _MultiOptimizer):
        return list(optimizer.optimizers)
    return []


def known_variables(optimizer: Any) -> list[Any]:
    """The variables that an optimizer was built for, in the order of its gradients."""
    if loss_scaled(optimizer):
        optimizer = optimizer.inner_optimizer
    return list(optimizer._trainable_variables)


def overwritten_by_gradient(variable: Any) -> bool:
    """Whether its "gradient" is its next value, as for the scales of float8 training."""
    return bool(getattr(variable, "overwrite_with_gradient", False))


# ---- Gradient accumulation -----------------------------------------------------------------


def accumulating_optimizer(optimizer: Any) -> Any | None:
    """The optimizer that accumulates gradients over several calls; None if there is none.

    A `MultiOptimizer` counts as none, even if it delegates to some that accumulate.
    """
    if loss_scaled(optimizer):
        optimizer = optimizer.inner_optimizer
    return optimizer if optimizer.gradient_accumulation_steps else None


def completes_update(optimizer: Any) -> tf.Tensor:
    """Whether the current call of an accumulating optimizer is the last of an update."""
    # `iterations` is public but counts updates; this one counts calls.
    calls = tf.convert_to_tensor(optimizer._iterations)
    return tf.equal((calls + 1) % optimizer.gradient_accumulation_steps, 0)


def begins_update(optimizer: Any) -> tf.Tensor:
    """Whether the next call of an accumulating optimizer is the first of an update."""
    calls = tf.convert_to_tensor(optimizer._iterations)
    return tf.equal(calls % optimizer.gradient_accumulation_steps, 0)


def accumulators(optimizer: Any, variables: Sequence[Any]) -> list[Any]:
    """The variables with the sums of the gradients so far, unscaled."""
    return [
        optimizer._accumulated_gradients[optimizer._get_variable_index(variable)]
        for variable in variables
    ]


def accumulator_ids(optimizer: Any) -> set[int]:
    """Ids of all accumulators of a built optimizer and of those it delegates to."""
    return {
        id(accumulator)
        for one in (optimizer, *inner_optimizers(optimizer))
        if one.gradient_accumulation_steps
        for accumulator in getattr(one, "_accumulated_gradients", ())
    }


def gradient_scale(optimizer: Any) -> tf.Tensor | None:
    """What gradients are divided by before they are accumulated; None for nothing."""
    if not loss_scaled(optimizer):
        factor = optimizer.loss_scale_factor
        return None if factor is None else tf.constant(factor, tf.float32)
    scale = tf.convert_to_tensor(optimizer.dynamic_scale)
    # Older releases let the inner optimizer scale as well.
    factor = optimizer.inner_optimizer.loss_scale_factor
    return scale if factor is None else scale * factor


# ---- Loss scaling --------------------------------------------------------------------------


def on_loss_scale_optimizer(created: Callable[[Any], None]) -> None:
    """Calls `created` with every `LossScaleOptimizer` that is made from now on.

    Under the policy mixed_float16 `Model.compile` makes one around the optimizer that it is
    given. Whether a step is skipped is decided out there, so gradients must be reduced out
    there too, and Keras has no other place to learn of it. Only the first call does
    anything, since there is one set of callbacks per process.
    """
    cls = keras.optimizers.LossScaleOptimizer
    original = cls.__init__
    if hasattr(original, "_tfring_original"):
        return

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        created(self)

    init._tfring_original = original  # type: ignore[attr-defined]
    cls.__init__ = init


# ---- The course of fit ---------------------------------------------------------------------

_EVENTS = ("on_train_begin", "on_epoch_begin", "on_epoch_end", "on_test_begin", "on_train_end")


def follow_callback_lists(follower_of: Callable[[Any], Any]) -> None:
    """Calls `follower_of(model).around(event, callbacks, epoch)` around some of Keras's events.

    A callback can't be sure to be the first or the last in the list. Only the first call does
    anything, since there is one class of lists per process.

    Args:
        follower_of: Returns None for a model that is not followed.
    """
    cls = keras.callbacks.CallbackList
    for event in _EVENTS:
        original = getattr(cls, event)
        if not hasattr(original, "_tfring_original"):
            setattr(cls, event, _followed(event, original, follower_of))


def _followed(event: str, original: Any, follower_of: Callable[[Any], Any]) -> Any:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        model = self.model
        follower = None if model is None else follower_of(model)
        if follower is None:
            return original(self, *args, **kwargs)
        epoch = (args[0] if args else kwargs["epoch"]) if "epoch" in event else None
        with follower.around(event, self.callbacks, epoch):
            return original(self, *args, **kwargs)

    call._tfring_original = original  # type: ignore[attr-defined]
    return call


def override_metric_logs(model: Any, *, before: Callable[[], None], always: bool) -> Any:
    """Steps in where `fit` and `evaluate` turn the state of metrics into logs.

    Args:
        model: A `keras.Model`.
        before: Called before that.
        always: Have an epoch without batches report what its metrics contain. Keras reports
            what the last batch returned, so nothing when there was none, which happens when an
            epoch is entered again at its end.

    Returns:
        A function that ends it.
    """
    name = "_get_metrics_result_or_logs"
    present = vars(model).get(name)
    current = getattr(model, name)

    def logs_of(logs: Any) -> Any:
        before()
        return current(logs or (model.get_metrics_result() if always else logs))

    def end() -> None:
        if present is None:
            vars(model).pop(name, None)
        else:
            vars(model)[name] = present

    vars(model)[name] = logs_of
    return end


_shorter = False


def epoch_is_shorter(shorter: bool) -> None:
    """Says that the running epoch has fewer batches than others, since it was entered again.

    Keras takes the number of batches of all epochs from the first that runs out of data. From
    a shorter one it must not, nor need it warn.
    """
    global _shorter
    _shorter = shorter
    if EpochIterator is None or hasattr(EpochIterator.catch_stop_iteration, "_tfring_original"):
        return
    original = EpochIterator.catch_stop_iteration

    @contextlib.contextmanager
    def end_quietly(self: Any) -> Any:
        try:
            yield
            self.tf_sync()
        except (StopIteration, tf.errors.OutOfRangeError):
            self._current_iterator = None
            self.data_adapter.on_epoch_end()

    @functools.wraps(original)
    def catch_stop_iteration(self: Any) -> Any:
        return end_quietly(self) if _shorter else original(self)

    catch_stop_iteration._tfring_original = original  # type: ignore[attr-defined]
    EpochIterator.catch_stop_iteration = catch_stop_iteration


# ---- Callbacks -----------------------------------------------------------------------------


def keep_best(callback: Any) -> None:
    """Has a callback that goes on with what another one found best not forget that.

    The EarlyStopping of older releases sets `best` back when it learns, at the end of its first
    epoch, whether more or less is better.
    """
    learn = getattr(callback, "_set_monitor_op", None)
    if learn is None or getattr(callback, "monitor_op", None) is not None:
        return

    def learn_only() -> None:
        best = callback.best
        learn()
        callback.best = best

    callback._set_monitor_op = learn_only
