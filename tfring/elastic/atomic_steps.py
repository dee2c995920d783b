"""Steps that change everything or nothing.

Behind the gate of a distributed optimizer all changes, or nothing has (see
`reducing_optimizer`). What a step changes before that is saved when the step begins, in the
graph, and put back when it has failed:

    begin               saved = early variables;  begun = completed
    forward, backward   the early variables change: averages, metrics, seeds
    gate                completed += 1, the others change

Having failed means that completed == begun. With accumulation of gradients an update is taken
as a whole: it is saved when its first call begins, and redone from there.

XLA may write a variable's new value over its old one before it has called the operation that
fails. It does not where somebody else refers to the old one. So steps that XLA compiles are
compiled in here, within a graph that saves all variables first.

A step that applies gradients more than once (a GAN's) has no such gate. Then all variables
are saved, and the step counts when everything in it is done.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfring import keras_hooks
from tfring.elastic.saved_values import SavedValues
from tfring.elastic.step_counter import StepCounter
from tfring.elastic.step_variables import StepVariables

_NEVER = -1


class AtomicSteps:
    """Wraps training steps, and undoes one that has failed.

    Args:
        counter: Counts the completed ones.
        variables: What a step changes.
    """

    def __init__(self, counter: StepCounter, variables: StepVariables) -> None:
        self._counter = counter
        self._variables = variables
        self._saved = SavedValues()
        self._save_function: Any = None
        # Whether XLA compiles the steps; to be set before one is traced.
        self.compiled = False
        with tf.init_scope(), tf.device("CPU:0"):
            self._begun = tf.Variable(_NEVER, dtype=tf.int64, trainable=False, name="tfring_begun")
            # Whether a step is more than one update; known once one has been traced.
            self._whole = tf.Variable(False, trainable=False, name="tfring_whole_steps")

    def wrap(self, step: Callable[..., Any], *, one_update: bool) -> Callable[..., Any]:
        """The same step, so that `undo` can undo it.

        Args:
            step: Python that is traced, or run eagerly.
            one_update: It is known to apply gradients once.
        """

        @functools.wraps(step)
        @tf.autograph.experimental.do_not_convert
        def atomic(*args: Any, **kwargs: Any) -> Any:
            optimizers = self._variables.optimizers()
            for optimizer in optimizers:
                self._counter.follow(optimizer)
            if len(optimizers) > 1 and not one_update:
                with tf.init_scope():
                    self._whole.assign(True)
            self._begin(one_update)
            before = None if one_update else tf.identity(self._counter.completed)
            run = self._compile(step) if self.compiled and not tf.executing_eagerly() else step
            with self._counter.step(None if one_update else self._whole):
                outputs = run(*args, **kwargs)
            # Keras makes metrics in the first trace, the only one that may make variables.
            self._saved.prepare(self._variables.early())
            self._saved.prepare(self._variables.late())
            if before is not None:
                self._end(before)
            return outputs

        atomic.tfring_plain = step  # type: ignore[attr-defined]
        return atomic

    def undo(self, *, within_update: bool = True) -> bool:
        """Puts back what a failed step has changed; eagerly.

        Args:
            within_update: Also undo completed calls of an update that is not complete.

        Returns:
            Whether there was anything to undo.
        """
        begun, completed = int(self._begun), int(self._counter.completed)
        failed = completed == begun or (within_update and self.within_update())
        if begun == _NEVER or not failed:
            return False
        self._saved.put_back(self._variables.early())
        if bool(self._whole) or self.compiled:
            self._saved.put_back(self._variables.late())
        if self._variables.accumulating() is not None:
            clear(self._variables.accumulators())
        self._counter.completed.assign(begun)
        self._begun.assign(_NEVER)
        return True

    def within_update(self) -> bool:
        """Whether gradients have been accumulated for an update that is not complete."""
        optimizer = self._variables.accumulating()
        if optimizer is None or not optimizer.built or int(self._begun) == _NEVER:
            return False
        return not bool(keras_hooks.begins_update(optimizer))

    def consistent(self, variable: tf.Variable) -> tf.Tensor:
        """A variable's value as of the last complete update; by reference where possible."""
        saved = self._saved.of(variable) if self.within_update() else None
        return tf.convert_to_tensor(variable if saved is None else saved)

    def consistent_steps(self) -> int:
        """The steps completed as of the last complete update."""
        return int(self._begun if self.within_update() else self._counter.completed)

    def _begin(self, one_update: bool) -> None:
        accumulating = self._variables.accumulating()
        if tf.executing_eagerly():
            if accumulating is None or bool(keras_hooks.begins_update(accumulating)):
                self._save_eagerly()
        elif accumulating is not None:
            tf.cond(
                keras_hooks.begins_update(accumulating),
                lambda: self._save(one_update),
                lambda: tf.constant(0),
            )
        else:
            self._save(one_update)

    def _compile(self, step: Callable[..., Any]) -> Any:
        return tf.function(step, jit_compile=True, reduce_retracing=True, autograph=False)

    def _save(self, one_update: bool) -> tf.Tensor:
        self._saved.save(self._variables.early())
        self._begun.assign(self._counter.completed, read_value=False)
        late = self._variables.late()
        if self.compiled:
            self._saved.save(late)
        elif not one_update:
            tf.cond(self._whole, lambda: self._save_late(late), lambda: tf.constant(0))
        return tf.constant(0)

    def _save_late(self, late: list[tf.Variable]) -> tf.Tensor:
        self._saved.save(late)
        return tf.constant(0)

    def _save_eagerly(self) -> None:
        """In one call, since eager calls are slow."""
        variables = self._variables.early()
        if bool(self._whole) or self.compiled:
            variables += self._variables.late()
        key = [id(variable) for variable in variables]
        if self._save_function is None or self._save_function[0] != key:
            function = tf.function(lambda: self._saved.save(variables), autograph=False)
            self._save_function = (key, function)
        self._save_function[1]()
        self._begun.assign(self._counter.completed)

    def _end(self, before: tf.Tensor) -> None:
        """Counts a step of several updates, or of none, when everything in it is done."""
        done: list[Any] = []
        if not tf.executing_eagerly():
            graph = tf.compat.v1.get_default_graph()
            done = [op for op in graph.get_operations() if op.op_def.is_stateful]
        with tf.control_dependencies(done):
            self._counter.completed.assign(before + 1, read_value=False)


def clear(accumulators: list[tf.Variable]) -> None:
    """Forgets gradients that were accumulated for an update."""
    for accumulator in accumulators:
        accumulator.assign(tf.zeros(accumulator.shape, accumulator.dtype), read_value=False)
