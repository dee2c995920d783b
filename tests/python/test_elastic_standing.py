"""Whose state everybody gets."""

from __future__ import annotations

import pytest

from tfring.elastic.standing import NO_STEPS, Standing, behind, choose_root

NEW = Standing(NO_STEPS)


@pytest.mark.parametrize(
    ("standings", "root", "late"),
    [
        ([Standing(5), Standing(5)], 0, []),
        ([Standing(4), Standing(5), Standing(5)], 1, [0]),
        ([Standing(5), NEW], 0, [1]),
        ([NEW, Standing(0), Standing(0)], 1, [0]),
        # The end of an epoch is repeated where only some have passed it.
        ([Standing(5, 2), Standing(5, 1), Standing(5, 1)], 1, [0]),
        ([Standing(5, 1), Standing(6, 2)], 1, [0]),
        # At a first start rank 0 is as good as any, unless another has a commit.
        ([NEW, NEW], 0, [1]),
        ([NEW, Standing(NO_STEPS, committed=7), Standing(NO_STEPS, committed=3)], 1, [0, 2]),
        ([Standing(NO_STEPS, committed=7), Standing(NO_STEPS, committed=7)], 0, [1]),
    ],
)
def test_choice(standings: list[Standing], root: int, late: list[int]) -> None:
    assert choose_root(standings) == root
    assert behind(standings, root) == late
