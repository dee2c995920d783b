"""`TensorFlowState`: variables whose completed steps are kept, whoever dies."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfring import engine, objects
from tfring.elastic import attributes as packing
from tfring.elastic.atomic_steps import AtomicSteps, clear
from tfring.elastic.commit_files import commit_directory, newest_commit, remove_commits
from tfring.elastic.commit_writer import CommitWriter
from tfring.elastic.member_sync import Outcome, Snapshot, exchange, synchronise
from tfring.elastic.sampler import Sampler
from tfring.elastic.saved_values import native
from tfring.elastic.standing import NO_STEPS, Standing, choose_root
from tfring.elastic.state import State
from tfring.elastic.step_counter import StepCounter
from tfring.elastic.step_variables import StepVariables
from tfring.errors import InvalidArgumentError
from tfring.model_state import Description, describe, is_built, shared_state
from tfring.seed import differ_by_rank, rank_seed, seed_states

# How long a job that ends waits for its last commit.
_LAST_COMMIT_S = 120.0


class TensorFlowState(State):
    """The state of a training loop of one's own.

    Steps are counted where the variables change: in the optimizer's update, inside the graph.
    When membership changes, the members find out who has completed the most steps, and the
    others take that state; with one survivor left, no completed step is lost. A step that was
    interrupted has changed nothing.

    That holds for what changes with the gradients, and for the whole step if it is wrapped by
    `atomic`. Where no optimizer counts, the state goes back to its last `commit()`.

    Example:

    >>> state = tfring.elastic.TensorFlowState(model=model, optimizer=optimizer, step=0)
    >>> train_step = state.atomic(train_step)          # a tf.function
    >>>
    >>> @tfring.elastic.run
    ... def train(state):
    ...     for x, y in batches(state.completed_steps):
    ...         train_step(x, y)
    ...         state.commit()

    Args:
        variables: Variables that must be the same on all workers, besides those of `model` and
            `optimizer`.
        model: A `keras.Model`.
        optimizer: Its optimizer, if the model is not compiled with it.
        directory: Where `commit` writes to, in the background, by rank 0; a new start resumes
            from there. Default: the setting `commit_directory`; empty: nowhere.
        **attributes: Anything that can be pickled, or that has `state_dict()` and
            `load_state_dict(state)`. They become attributes of the state.

    Attributes:
        Those given as `attributes`.

    Raises:
        InvalidArgumentError: An attribute has the name of something the state has already.
    """

    def __init__(
        self,
        variables: Sequence[Any] | None = None,
        *,
        model: Any = None,
        optimizer: Any = None,
        directory: Any = None,
        **attributes: Any,
    ) -> None:
        super().__init__()
        self._model = model
        self._others = list(variables or ())
        self._step_variables = StepVariables(model, optimizer, self._others)
        self._counter = StepCounter()
        self._steps = AtomicSteps(self._counter, self._step_variables)
        for optimizer_of_mine in self._step_variables.optimizers():
            self._counter.follow(optimizer_of_mine)
        taken = [name for name in attributes if hasattr(self, name)]
        if taken:
            own = type(self).__name__
            raise InvalidArgumentError(f"attribute {taken[0]!r}: a {own} has that name itself")
        self._names = list(attributes)
        for name, value in attributes.items():
            setattr(self, name, value)
            if isinstance(value, Sampler):
                value.follow(self)
        self._directory = commit_directory(directory)
        self._writer: CommitWriter | None = None
        self._member = False  # has had the state that all have
        self._commits = 0
        self._root = 0  # whose state everybody got last
        self._committed: Snapshot | None = None
        self._resumed: Snapshot | None = None  # from disk, for a model that is not built yet

    # ---- For users -------------------------------------------------------------------------

    @property
    def completed_steps(self) -> int:
        """Steps that have been completed since the training began, on all workers together.

        A step is one on all workers; micro-steps of gradient accumulation count each.
        """
        return int(self._counter.completed)

    @property
    def consistent_steps(self) -> int:
        """Those of them that a change of membership can't undo: whole updates."""
        return self._steps.consistent_steps()

    @property
    def completed_steps_variable(self) -> tf.Variable:
        """The same as an int64 variable, for use in a graph."""
        return self._counter.completed

    def atomic(self, step: Callable[..., Any], *, compiled: bool = False) -> Callable[..., Any]:
        """Makes all that a step changes come back when it fails.

        An optimizer's update is all or nothing in any case. This is for what a step changes
        before: averages of BatchNormalization, metrics, seeds, and the updates of other
        optimizers in the same step.

        Args:
            step: A `tf.function`, or Python.
            compiled: It is a `tf.function` with `jit_compile=True`: XLA may overwrite any
                variable before a step has failed, so all are saved, and use twice the memory.

        Returns:
            The same, wrapped.
        """
        self._steps.compiled = compiled
        return self._steps.wrap(step, one_update=False)

    def commit(self) -> None:
        """Keeps the state of now: in memory, and on disk if there is a directory for it.

        What is in memory serves `restore`. Neither copies variables at once: they are copied
        when a step changes them, and written in the background.

        Raises:
            TypeError: An attribute can't be pickled.
        """
        self._committed = self._snapshot()
        self._commits += 1
        if self._directory is not None and engine.rank() == 0:
            self._submit(self._committed)
        self.check_host_updates()

    def restore(self) -> None:
        """Goes back to the last commit, if there is one.

        Nothing has to call this after a change of membership: completed steps are kept.
        """
        if self._committed is not None:
            snapshot = self._committed
            self._put(snapshot, own=True)
            for variable, value in zip(self._shared_native(), snapshot.values, strict=True):
                variable.assign(value)
            self._counter.completed.assign(snapshot.steps)
            clear(self._step_variables.accumulators())

    # ---- For elastic.run -------------------------------------------------------------------

    def recover(self) -> None:
        """After a failure: undoes the step that was interrupted."""
        if self._counts_steps():
            self._steps.undo()
        else:
            self.restore()

    def sync(self) -> None:
        """Gives all members the state of the one that has come furthest.

        All members call it. Nothing is sent when all are equal.

        Raises:
            MismatchError: The members have different models.
        """
        self.recover()
        standings = exchange(self._standing(), self._described)
        if all(standing.is_newcomer() for standing in standings):
            standings = self._begin_from_disk()
        self._root = choose_root(standings)
        outcome = synchronise(standings, self._snapshot, self._shared_native())
        if outcome.snapshot is not None:
            self._put(outcome.snapshot, own=False)
            if outcome.received:
                self._counter.completed.assign(outcome.snapshot.steps)
                clear(self._step_variables.accumulators())
        self._separate_seeds(outcome)
        self._member = True

    def save_last(self) -> Path | None:
        """Writes the state of now to disk, from whichever rank calls it, and waits for that.

        Returns:
            The file; None if there is no directory or it failed, with a warning.
        """
        if self._directory is None:
            return None
        self._submit(self._snapshot())
        assert self._writer is not None
        self._writer.close(_LAST_COMMIT_S)
        return self._writer.written

    def finished(self) -> None:
        """The training has ended: commits on disk are of no use any more."""
        if self._writer is not None:
            self._writer.close(_LAST_COMMIT_S)
        if self._directory is not None and engine.rank() == 0:
            remove_commits(self._directory)

    # ---- Parts that KerasState extends -----------------------------------------------------

    def _position(self) -> int:
        """Where Python is, between equal steps."""
        epoch = getattr(self, "epoch", 0)
        return epoch if isinstance(epoch, int) else 0

    def _meta(self) -> dict[str, Any]:
        """What is carried besides variables and attributes."""
        return {"seeds": [keras.ops.convert_to_numpy(state) for state in self._seeds()]}

    def _put_meta(self, meta: dict[str, Any], *, own: bool) -> None:
        """Takes it; `own`: of this rank's commit, or of one on disk."""
        if own:
            for state, value in zip(self._seeds(), meta["seeds"], strict=False):
                state.assign(value)

    # ---- Own -------------------------------------------------------------------------------

    def _counts_steps(self) -> bool:
        return bool(self._step_variables.optimizers())

    def _shared(self) -> list[Any]:
        """All variables that must be the same on all members."""
        found: list[Any] = list(self._others)
        if self._model is not None and is_built(self._model):
            found += shared_state(self._model)
        for optimizer in self._step_variables.optimizers():
            if not optimizer.built and self._model is not None and is_built(self._model):
                optimizer.build(self._model.trainable_variables)
        local = {id(variable) for variable in self._step_variables.accumulators()}
        for optimizer in self._step_variables.optimizers():
            found += [v for v in optimizer.variables if id(native(v)) not in local]
        return list({id(native(v)): v for v in found}.values())

    def _shared_native(self) -> list[tf.Variable]:
        return [native(variable) for variable in self._shared()]

    def _described(self) -> list[Description]:
        return describe(self._shared())

    def _standing(self) -> Standing:
        counts = self._counts_steps()
        steps = self._steps.consistent_steps() if counts else self._commits
        described = [one[1:] for one in self._described()]
        structure = hashlib.sha256(repr(described).encode()).hexdigest()[:16]
        return Standing(
            steps=steps if self._member else NO_STEPS,
            position=self._position(),
            structure=structure,
        )

    def _snapshot(self) -> Snapshot:
        """The state as of the last complete update; variables by reference."""
        shared = self._shared_native()
        if self._steps.within_update():
            values = [self._steps.consistent(variable) for variable in shared]
        else:
            values = [tf.raw_ops.ReadVariableOp(resource=v.handle, dtype=v.dtype) for v in shared]
        return Snapshot(
            steps=self._steps.consistent_steps(),
            attributes=packing.pack({name: getattr(self, name) for name in self._names}),
            meta={"commits": self._commits, **self._meta()},
            values=values,
            described=self._described(),
        )

    def _put(self, snapshot: Snapshot, *, own: bool) -> None:
        """Takes a snapshot's attributes."""
        now = {name: getattr(self, name) for name in self._names}
        for name, value in packing.unpack(snapshot.attributes, now).items():
            setattr(self, name, value)
        self._commits = snapshot.meta["commits"]
        self._put_meta(snapshot.meta, own=own)

    def _seeds(self) -> list[Any]:
        return [] if self._model is None else seed_states(self._model)

    def _separate_seeds(self, outcome: Outcome) -> None:
        """Random streams that no other worker has or had."""
        seeds = self._seeds()
        if outcome.first:
            own = [keras.ops.convert_to_numpy(state) for state in seeds]
            everyone = objects.allgather_object(own, name="elastic/seeds")
            others = everyone[: engine.rank()]
            differ_by_rank(seeds, [values for values in others if len(values) == len(seeds)])
        elif not self._member:
            place = engine.config()
            number = place.generation * 2**20 + place.rank
            for state in seeds:
                value = keras.ops.convert_to_numpy(state)
                seed = rank_seed(int(value[0]), number)
                state.assign(np.array([seed, value[1]], value.dtype))

    def _begin_from_disk(self) -> list[Standing]:
        """At a first start: whoever finds the newest commit on disk begins with it."""
        commit = None if self._directory is None else newest_commit(self._directory)
        standing = replace(self._standing(), committed=NO_STEPS if commit is None else commit.steps)
        standings = exchange(standing, self._described)
        if commit is not None and choose_root(standings) == engine.rank():
            self._resumed = Snapshot.from_commit(commit)
            self._put(self._resumed, own=True)
            self._counter.completed.assign(commit.steps)
            self._take_resumed()
        return standings

    def _take_resumed(self) -> None:
        """Gives a commit's values to the variables, as soon as there are any."""
        if self._resumed is None or (self._model is not None and not is_built(self._model)):
            return
        snapshot, self._resumed = self._resumed, None
        snapshot.require_for(self._described())
        for variable, value in zip(self._shared_native(), snapshot.values, strict=True):
            variable.assign(value)

    def _submit(self, snapshot: Snapshot) -> None:
        if self._writer is None:
            assert self._directory is not None
            self._writer = CommitWriter(self._directory)
        self._writer.submit(snapshot.to_commit)
