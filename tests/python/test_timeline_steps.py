"""What is told of a step, and rows for spans."""

from __future__ import annotations

import random

import pytest

from tfring.monitoring.timeline import part, steps
from tfring.monitoring.timeline.lanes import Lanes
from tfring.monitoring.timeline.part import Record


def bucket(begin: int, end: int, name_id: int = 0, text: str = "step/gradients0") -> Record:
    nothing = (0, 0, 0, 0)
    return Record(
        *(part.OPERATION, 0, 0, 0, begin, end, name_id, 0, 0, 1, 8, 0, 0, nothing, nothing, 0, text)
    )


def test_phases_of_a_step() -> None:
    found = list(steps.phases(0, 100, [bucket(40, 70, 1), bucket(60, 90, 2)]))
    assert found == [
        (steps.FORWARD_BACKWARD, 0, 60),
        (steps.BEFORE_BUCKETS, 0, 40),
        (steps.OVERLAPPED, 40, 60),
        (steps.EXPOSED, 60, 90),
        (steps.UPDATE, 90, 100),
    ]


def test_one_bucket_and_none() -> None:
    assert [phase.name for phase in steps.phases(0, 10, [bucket(5, 8)])] == [
        *(steps.FORWARD_BACKWARD, steps.BEFORE_BUCKETS, steps.EXPOSED, steps.UPDATE)
    ]
    assert list(steps.phases(3, 10, [])) == [(steps.NO_BUCKETS, 3, 10)]


def test_several_steps_that_run_as_one() -> None:
    rounds = [bucket(10, 20, 1), bucket(15, 25, 2), bucket(40, 50, 1), bucket(45, 60, 2)]
    found = list(steps.phases(0, 70, rounds))
    outer = [phase for phase in found if phase.name not in (steps.BEFORE_BUCKETS, steps.OVERLAPPED)]
    assert outer == [
        (steps.FORWARD_BACKWARD, 0, 15),
        (steps.EXPOSED, 15, 25),
        (steps.FORWARD_BACKWARD, 25, 45),
        (steps.EXPOSED, 45, 60),
        (steps.UPDATE, 60, 70),
    ]


def test_phases_fill_the_step_even_if_a_bucket_outlives_it() -> None:
    found = list(steps.phases(0, 50, [bucket(20, 80)]))
    outer = [phase for phase in found if phase.name != steps.BEFORE_BUCKETS]
    assert outer[-1] == (steps.UPDATE, 50, 50)
    assert sum(phase.end - phase.begin for phase in outer) == 50


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("one_step_on_data/gradients0", True),
        ("train/cond0/gradients3/1", True),
        ("gradients/average/bucket4", True),
        ("mine/sum/sparse", True),
        ("one_step_on_data/allreduce0", False),
        ("fit/next_batch", False),
        ("metrics/my_gradients", False),
    ],
)
def test_which_operations_are_buckets(name: str, expected: bool) -> None:
    assert steps.is_bucket(bucket(0, 1, text=name)) is expected


def test_rows_hold_no_two_spans_at_once() -> None:
    chance = random.Random(1)
    spans = sorted(
        (begin := chance.randrange(1000), begin + chance.randrange(200)) for _ in range(300)
    )
    lanes, busy = Lanes(), {}
    for begin, end in spans:
        row = lanes.take(begin, end)
        assert busy.get(row, 0) <= begin
        busy[row] = end
    assert set(busy) == set(range(lanes.count))
    most = max(sum(b <= time < e for b, e in spans) for time, _ in spans)
    assert lanes.count <= most + sum(b == e for b, e in spans)
