"""Giving the members of a generation one state.

    1. all tell all where they stand (`standing`)
    2. the one that has come furthest sends its attributes, then its variables
    3. whoever is behind takes them; the others' variables stay as they are, since a
       BatchNormalization's averages are a rank's own

Nothing is changed before all has arrived, so a member that dies meanwhile does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from tfring import engine, objects
from tfring.elastic.commit_files import Commit
from tfring.elastic.standing import Standing, behind, choose_root
from tfring.errors import InvalidArgumentError
from tfring.model_state import Description, require_same
from tfring.variables import broadcast_variables


@dataclass(frozen=True)
class Snapshot:
    """The state of a training at a moment.

    Attributes:
        steps: Completed steps.
        attributes: Of the user, packed.
        meta: What else can be pickled.
        values: Of the variables, in their order; by reference.
        described: Their structure.
    """

    steps: int
    attributes: bytes
    meta: dict[str, Any]
    values: Sequence[tf.Tensor] = field(repr=False, default=())
    described: Sequence[Description] = ()

    def to_commit(self) -> Commit:
        """The same for a file; copies the variables out of TensorFlow."""
        meta = {"attributes": self.attributes, "meta": self.meta, "described": self.described}
        return Commit(self.steps, meta, [np.asarray(value) for value in self.values])

    @classmethod
    def from_commit(cls, commit: Commit) -> Snapshot:
        """What `to_commit` has made a file of."""
        meta = commit.meta
        return cls(commit.steps, meta["attributes"], meta["meta"], commit.arrays, meta["described"])

    def require_for(self, described: Sequence[Description]) -> None:
        """Makes sure that it belongs to this model.

        Raises:
            InvalidArgumentError: It does not.
        """
        ours, theirs = ([one[1:] for one in d] for d in (described, self.described))
        if ours != theirs:
            odd = next(
                (i for i, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]),
                min(len(ours), len(theirs)),
            )
            has, needs = (
                d[odd] if odd < len(d) else "nothing" for d in (self.described, described)
            )
            raise InvalidArgumentError(
                f"the commit of step {self.steps} belongs to another model: as variable {odd} of "
                f"{len(ours)} it has {has}, expected {needs}. Delete it, or commit to another "
                "directory"
            )


@dataclass(frozen=True)
class Outcome:
    """What a rank has got.

    Attributes:
        first: Nobody had taken a step; the job begins.
        received: This rank's variables are the root's now.
        snapshot: The root's attributes, if any rank was behind and this is not the root.
    """

    first: bool
    received: bool
    snapshot: Snapshot | None


def exchange(standing: Standing, described: Callable[[], Sequence[Description]]) -> list[Standing]:
    """All ranks' standings.

    Args:
        standing: This rank's.
        described: Returns the structure of its variables, in case that it differs.

    Raises:
        MismatchError: The ranks have different models.
    """
    standings = objects.allgather_object(standing, name="elastic/standings")
    if len({one.structure for one in standings}) > 1:
        require_same(objects.allgather_object(described(), name="elastic/structures"))
    return list(standings)


def synchronise(
    standings: Sequence[Standing],
    snapshot: Callable[[], Snapshot],
    variables: Sequence[tf.Variable],
) -> Outcome:
    """Gives the ranks that are behind the state of the one that is not.

    Args:
        standings: Of all ranks.
        snapshot: Makes a snapshot of this rank; called on the root only.
        variables: What is sent, in the same order on all ranks.

    Returns:
        What has arrived here; attributes are the caller's to take.
    """
    root = choose_root(standings)
    late = behind(standings, root)
    first = all(standing.is_newcomer() for standing in standings)
    if not late:
        return Outcome(first, received=False, snapshot=None)
    rank = engine.rank()
    own = snapshot() if rank == root else None
    packed = objects.broadcast_object(
        own and (own.steps, own.attributes, own.meta), root, name="elastic/attributes"
    )
    receive = rank in late
    if variables:
        broadcast_variables(variables, root, name="elastic/variables", receive=receive)
    # Equal ranks keep their variables but take the attributes: they may have got less far
    # in Python.
    return Outcome(first, receive, None if rank == root else Snapshot(*packed))
