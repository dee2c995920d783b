"""How ranks' values become one."""

from __future__ import annotations

import enum


class ReduceOp(enum.Enum):
    """A reduction over ranks. The values are those of the native engine.

    Average of integers divides the sum and truncates toward zero. Bool tensors take Sum and
    Max as "or", Product and Min as "and", and have no Average.
    """

    SUM = 0
    AVERAGE = 1
    MIN = 2
    MAX = 3
    PRODUCT = 4

    def __repr__(self) -> str:
        return f"tfring.{self.name.capitalize()}"
