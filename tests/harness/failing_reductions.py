"""Reductions that fail when a test says so, in a single process.

Gradients are "reduced" by operations that pass them on, or fail as an engine would that has
lost a peer. In graphs that is decided when they run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf

from tfring import ops
from tfring.reduction import GradientReduction

_NEVER = -1


class FailingReductions:
    """Says which reduction fails, counted from 0 over all that run.

    Attributes:
        ran: How many have run.
    """

    def __init__(self) -> None:
        self.ran = tf.Variable(0, dtype=tf.int64)
        self._fails = tf.Variable(_NEVER, dtype=tf.int64)

    def fail_after(self, reductions: int | None) -> None:
        """Has one of the next reductions fail; None: has none fail any more."""
        self._fails.assign(_NEVER if reductions is None else int(self.ran) + reductions)

    @contextlib.contextmanager
    def failing(self, reductions: int) -> Iterator[None]:
        """Within it that reduction fails; the error has to come out."""
        self.fail_after(reductions)
        with pytest.raises(Exception, match="peer lost"):
            yield
        self.fail_after(None)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> FailingReductions:
        """Puts them in the place of the real ones."""
        monkeypatch.setattr(GradientReduction, "alone", lambda self: False)
        monkeypatch.setattr(ops, "grouped_allreduce", self._grouped_allreduce)
        return self

    @tf.autograph.experimental.do_not_convert
    def _grouped_allreduce(self, tensors: Any, **options: Any) -> list[Any]:
        with tf.control_dependencies([tensor for tensor in tensors if tf.is_tensor(tensor)]):
            number = self.ran.assign_add(1) - 1
        check = tf.debugging.assert_none_equal(number, self._fails, message="peer lost")
        with tf.control_dependencies([] if check is None else [check]):
            return [tf.identity(tensor) for tensor in tensors]
