"""`tfring.elastic.run`: training that goes on with whoever is there."""

from __future__ import annotations

import dataclasses
import functools
import gc
import re
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from tfring import arrays, engine
from tfring.config import Config
from tfring.elastic.membership import Generation, Membership
from tfring.elastic.recovery import Recovery, note
from tfring.elastic.state import State
from tfring.errors import (
    MembershipChangedError,
    NotInitializedError,
    PeerLostError,
    RendezvousTimeoutError,
    TfringError,
)

Result = TypeVar("Result")

# What an operation says of a peer that has left in good order; its engine is healthy then.
_LEFT = re.compile(r"rank \d+ has shut down")
# How long the driver may take to say that the membership has changed, after a peer has left.
_PATIENCE_S = 5.0
# A word to the driver must fit into a pipe at once.
_LONGEST_MESSAGE = 1000
_LOST_RANK = re.compile(r"lost rank (\d+)")
_UNREACHABLE = re.compile(r"there is no connection to (.*); the job has")
_RANK = re.compile(r"rank (\d+)")


def run(function: Callable[..., Result]) -> Callable[..., Result]:
    """Decorates a training function that shall go on when workers die or come.

    The function's first argument is a state. Before the function is called all workers have the
    same state. When the membership of the job changes the function is left by an exception out
    of a collective operation; the worker joins those who are left and those who are new, and the
    function is called again, in the same process, with a state that has lost no completed step.

    Workers that are started later run the function once by themselves until their first
    gradients have been computed, while the others go on. So when they join, everything has been
    imported, built and traced.

    Without `tfringrun --min-np`, or on one process, the function is just called once.

    Example:

    >>> @tfring.elastic.run
    ... def train(state):
    ...     model.fit(dataset, epochs=90, initial_epoch=state.epoch,
    ...               callbacks=[tfring.callbacks.CommitState(state)])
    >>>
    >>> train(tfring.elastic.KerasState(model, epoch=0, batch=0))

    Args:
        function: It takes the state, and whatever else its caller gives.

    Returns:
        A function of the same arguments. It returns what `function` returns. It raises what
        `function` raises for reasons of its own: then the job ends. In a worker that is not
        needed any more, and when the job has to stop, it raises SystemExit.
    """

    @functools.wraps(function)
    def wrapped(state: State, *args: Any, **kwargs: Any) -> Result:
        if not engine.is_initialized():
            raise NotInitializedError(f"call tfring.init() before {function.__name__}()")

        def body() -> Result:
            return function(state, *args, **kwargs)

        if not engine.config().elastic:
            state.sync()
            result = body()
        else:
            membership = Membership(engine.config())
            try:
                result = _Loop(state, body, membership).run()
            except BaseException:
                membership.tell_last("raised")
                raise
            finally:
                membership.close()
        state.finished()
        return result

    return wrapped


class _Loop:
    """One call of an elastic function.

    Args:
        state: What is kept.
        body: The function.
        membership: The connection to the driver.
    """

    def __init__(self, state: State, body: Callable[[], Any], membership: Membership) -> None:
        self._state = state
        self._body = body
        self._membership = membership
        self._place = engine.config()  # for the time being
        self._member = False

    def run(self) -> Any:
        """The function's result."""
        if self._place.generation > 0 and not engine.has_joined():
            self._rehearse()
        self._membership.tell("ready")
        recovery = Recovery(self._place.generation)
        while True:
            generation = self._next(recovery)
            try:
                self._join(generation, recovery)
                result = self._body()
                # Whoever has gone can't help those who lose another one in the last step.
                arrays.barrier(name="elastic/finished")
                self._membership.tell("done")
                # Iterators that interruptions have left in cycles need a Python to end in.
                gc.collect()
                return result
            except Exception as error:
                cause = self._change(error, generation.number)
                if cause is None:
                    raise
                _forget(error)
            recovery = Recovery(generation.number)
            newest = self._membership.newest()
            if newest is not None and newest.number > generation.number:
                recovery.seconds["detect"] = max(0.0, recovery.began - newest.heard)
            self._membership.tell(
                "failed",
                generation=generation.number,
                lost=_lost_ranks(cause),
                message=cause[:_LONGEST_MESSAGE],
            )

    def _rehearse(self) -> None:
        """Does all that a first step needs, alone, and nothing that counts."""
        try:
            self._state.prepare()
            with engine.rehearse():
                self._body()
        except Exception as error:
            # The reduction that ends it; any other error shows again when it counts.
            _forget(error)

    def _next(self, recovery: Recovery) -> Generation:
        while True:
            with recovery.measure("rendezvous"):
                generation = self._membership.next(after=recovery.generation)
            assert generation is not None
            recovery.generation, recovery.reason = generation.number, generation.reason
            if generation.status is not None:
                self._stop(generation)
            if self._membership.worker in generation.members:
                return generation
            if self._member:
                # Its slot is gone. For the job that is no end, and for the worker no failure.
                raise SystemExit(0)
            # From before this worker was ready.

    def _stop(self, generation: Generation) -> None:
        assert generation.status is not None
        if self._member:
            path = self._state.save_last()
            if path is not None:
                self._membership.tell("saved", path=str(path))
        print(f"tfring: the job stops: {generation.reason}", file=sys.stderr, flush=True)
        raise SystemExit(generation.status)

    def _join(self, generation: Generation, recovery: Recovery) -> None:
        place = _placed(self._place, generation, self._membership.worker)
        recovery.rank, recovery.size = place.rank, place.size
        with recovery.measure("recreate"):
            engine.join(place)
        with recovery.measure("sync"):
            self._state.sync()
        if self._member:
            self._state.on_reset()
        self._member = True
        note(recovery)
        self._membership.tell(
            "joined",
            generation=generation.number,
            rank=place.rank,
            seconds={part: round(seconds, 6) for part, seconds in recovery.seconds.items()},
        )

    def _change(self, error: Exception, generation: int) -> str | None:
        """Why training was interrupted from outside; None if the error is its own."""
        try:
            engine.check_health()
        except (PeerLostError, MembershipChangedError) as broken:
            return str(broken)
        except TfringError:
            pass  # it has not joined
        newest = self._membership.newest()
        if newest is not None and newest.number > generation:
            return newest.reason
        if isinstance(error, PeerLostError | MembershipChangedError | RendezvousTimeoutError):
            return str(error)
        if _LEFT.search(str(error)) and self._membership.next(generation, _PATIENCE_S):
            return str(error)
        return None


def _lost_ranks(cause: str) -> list[int]:
    """Those that a message says this worker can't go on with."""
    unreachable = _UNREACHABLE.search(cause)
    ranks = _LOST_RANK.findall(cause)
    if unreachable is not None:
        ranks += _RANK.findall(unreachable[1])
    return [int(rank) for rank in ranks]


def _forget(error: Exception) -> None:
    """Lets go of an exception, and of what its frames hold, on another thread.

    Among that are iterators of tf.data, which wait for threads of theirs, sometimes for seconds.
    """
    held = [error]
    threading.Thread(target=held.clear, name="tfring-forget", daemon=True).start()


def _placed(config: Config, generation: Generation, worker: str) -> Config:
    return dataclasses.replace(config, generation=generation.number, **generation.members[worker])
