"""Which tensors of a list travel in one operation, and under which name.

The engine fuses tensors of one data type. Pure: no TensorFlow here.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Group:
    """Tensors that share a data type.

    Attributes:
        suffix: What to append to the list's name: nothing for the first group, so that ranks
            that disagree about a data type meet under one name and are told so.
        indices: Positions in the list.
    """

    suffix: str
    indices: list[int] = field(default_factory=list)

    def of(self, items: Sequence[Any]) -> list[Any]:
        """The group's own items of a list."""
        return [items[index] for index in self.indices]

    def put(self, items: Sequence[Any], into: list[Any]) -> None:
        """Writes the group's items back to their positions."""
        for index, item in zip(self.indices, items, strict=True):
            into[index] = item


def by_dtype(dtypes: Sequence[Hashable]) -> list[Group]:
    """Groups positions by data type, in the order in which the types first appear.

    Example:

    >>> [(group.suffix, group.indices) for group in by_dtype(["f4", "i4", "f4"])]
    [('', [0, 2]), ('/1', [1])]
    """
    groups: dict[Hashable, Group] = {}
    for index, dtype in enumerate(dtypes):
        if dtype not in groups:
            groups[dtype] = Group(f"/{len(groups)}" if groups else "")
        groups[dtype].indices.append(index)
    return list(groups.values())
