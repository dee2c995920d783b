"""`ObjectState`: Python objects that are kept from commit to commit."""

from __future__ import annotations

from typing import Any

from tfring import engine, objects
from tfring.elastic import attributes as packing
from tfring.elastic.sampler import Sampler
from tfring.elastic.standing import NO_STEPS, Standing, behind, choose_root
from tfring.elastic.state import State
from tfring.errors import InvalidArgumentError


class ObjectState(State):
    """Attributes that all workers have in common.

    Nothing tells when they change, so after a change of membership all go back to the last
    commit: that of the worker with the most commits.

    Example:

    >>> state = tfring.elastic.ObjectState(step=0, best=None)
    >>>
    >>> @tfring.elastic.run
    ... def train(state):
    ...     while state.step < 1000:
    ...         take_step()
    ...         state.step += 1
    ...         if state.step % 10 == 0:
    ...             state.commit()

    Args:
        **attributes: Anything that can be pickled, or that has `state_dict()` and
            `load_state_dict(state)`.

    Attributes:
        Those given as `attributes`.

    Raises:
        InvalidArgumentError: An attribute has the name of something the state has already.
        TypeError: An attribute can't be pickled.
    """

    def __init__(self, **attributes: Any) -> None:
        super().__init__()
        self._names = list(attributes)
        taken = [name for name in attributes if hasattr(self, name)]
        if taken:
            raise InvalidArgumentError(
                f"attribute {taken[0]!r}: expected a name that an ObjectState does not use itself"
            )
        for name, value in attributes.items():
            setattr(self, name, value)
            if isinstance(value, Sampler):
                value.follow(self)
        self._member = False
        self._commits = 0
        self._committed = self._packed()

    def commit(self) -> None:
        """Keeps the attributes of now, to go back to.

        Raises:
            TypeError: One can't be pickled.
        """
        self._committed = self._packed()
        self._commits += 1
        self.check_host_updates()

    def restore(self) -> None:
        """Goes back to the last commit, or to the beginning."""
        self._put(self._committed)

    def sync(self) -> None:
        """All members get the last commit of the one that has made most. All call it."""
        self.entries += 1
        standing = Standing(self._commits if self._member else NO_STEPS)
        standings = objects.allgather_object(standing, name="elastic/standings")
        root = choose_root(standings)
        if behind(standings, root):
            own = (self._commits, self._committed)
            received = objects.broadcast_object(own, root, name="elastic/attributes")
            if engine.rank() != root:
                self._commits, self._committed = received
        self._put(self._committed)
        self._member = True

    def _packed(self) -> bytes:
        return packing.pack({name: getattr(self, name) for name in self._names})

    def _put(self, packed: bytes) -> None:
        now = {name: getattr(self, name) for name in self._names}
        for name, value in packing.unpack(packed, now).items():
            setattr(self, name, value)
