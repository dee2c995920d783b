from __future__ import annotations

import pytest

from tfring.grouping import by_dtype


@pytest.mark.parametrize(
    ("dtypes", "groups"),
    [
        ([], []),
        (["f4"], [("", [0])]),
        (["f4", "f4"], [("", [0, 1])]),
        (["f4", "i4", "f4", "f8", "i4"], [("", [0, 2]), ("/1", [1, 4]), ("/2", [3])]),
    ],
)
def test_by_dtype(dtypes, groups) -> None:
    assert [(group.suffix, group.indices) for group in by_dtype(dtypes)] == groups


def test_put_undoes_of() -> None:
    items = list("abcde")
    back: list[str | None] = [None] * 5
    for group in by_dtype(["x", "y", "x", "z", "y"]):
        group.put(group.of(items), back)
    assert back == items
