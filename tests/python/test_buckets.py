"""Bucket plans."""

from __future__ import annotations

import pytest

from tfring.buckets import plan_buckets

F, H = "float32", "float16"


@pytest.mark.parametrize(
    ("sizes", "dtypes", "expected"),
    [
        pytest.param([], [], [], id="nothing"),
        pytest.param([1], [F], [[0]], id="one"),
        pytest.param([4, 4, 4, 4], [F] * 4, [[0], [1, 2], [3]], id="the first is small"),
        pytest.param([1, 1, 1, 1], [F] * 4, [[0, 1, 2, 3]], id="small ones share"),
        pytest.param([100, 1, 1], [F] * 3, [[0], [1, 2]], id="a huge one fills its bucket"),
        pytest.param([1, 100, 1, 100], [F] * 4, [[0, 1], [2, 3]], id="a bias with its kernel"),
        pytest.param([2, 2, 2, 2], [F, H, F, H], [[0, 2], [1, 3]], id="types apart"),
        pytest.param([4, 1, 4], [F, H, F], [[0], [1], [2]], id="in the order of completion"),
        pytest.param([1, 1, 4], [H, F, F], [[0], [1, 2]], id="the last position counts"),
        pytest.param([0, 0, 0], [F] * 3, [[0, 1, 2]], id="empty tensors"),
    ],
)
def test_plans(sizes: list[int], dtypes: list[str], expected: list[list[int]]) -> None:
    assert plan_buckets(sizes, dtypes, bucket_bytes=8, first_bucket_bytes=4) == expected


def test_the_first_bucket_is_not_larger_than_the_others() -> None:
    plan = plan_buckets([1] * 6, [F] * 6, bucket_bytes=2, first_bucket_bytes=100)
    assert plan == [[0, 1], [2, 3], [4, 5]]


def test_every_position_occurs_once() -> None:
    sizes = [(7 * position) % 13 for position in range(200)]
    dtypes = [(F, H, "int32")[position % 3] for position in range(200)]
    plan = plan_buckets(sizes, dtypes, bucket_bytes=30, first_bucket_bytes=10)
    assert sorted(position for bucket in plan for position in bucket) == list(range(200))
    assert all(len({dtypes[position] for position in bucket}) == 1 for bucket in plan)
    assert all(bucket == sorted(bucket) for bucket in plan)
    assert [bucket[-1] for bucket in plan] == sorted(bucket[-1] for bucket in plan)


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="bucket_bytes: expected at least 1, received 0"):
        plan_buckets([1], [F], bucket_bytes=0)
    with pytest.raises(ValueError, match="zip"):
        plan_buckets([1, 2], [F], bucket_bytes=8)
