"""benchmarks/timing.py and findings.py: statistics of turns."""

from __future__ import annotations

import pytest

from benchmarks.findings import Findings
from benchmarks.timing import Times, calls_per_batch, ratio, repeats_per_round, rotated


def test_median_and_minimum_are_over_all_rounds() -> None:
    times = Times(((3.0, 1.0), (2.0,), (9.0, 4.0)))
    assert times.median == 3.0
    assert times.least == 1.0


def test_a_ratio_compares_within_rounds() -> None:
    """A disturbance that triples one round for both changes nothing."""
    one, other = Times(((2.0,), (6.0,), (2.0,))), Times(((1.0,), (3.0,), (1.0,)))
    assert ratio(one, other) == 2.0


def test_a_ratio_needs_equal_rounds() -> None:
    with pytest.raises(ValueError):
        ratio(Times(((1.0,),)), Times(((1.0,), (1.0,))))


@pytest.mark.parametrize(
    ("seconds", "calls"), [(0.0, 2000), (1e-6, 2000), (1e-5, 500), (0.004, 2), (1.0, 1)]
)
def test_short_calls_are_batched(seconds: float, calls: int) -> None:
    assert calls_per_batch(seconds) == calls


@pytest.mark.parametrize(("seconds", "repeats"), [(0.005, 10), (1e-5, 20), (3.0, 1)])
def test_turns_are_of_about_equal_length(seconds: float, repeats: int) -> None:
    assert repeats_per_round(seconds, 0.05) == repeats


def test_every_contestant_comes_first_in_some_round() -> None:
    names = ["a", "b", "c"]
    assert [rotated(names, number)[0] for number in range(4)] == ["a", "b", "c", "a"]
    assert sorted(rotated(names, 5)) == names
    assert rotated([], 3) == []


def test_findings_compare_only_what_was_measured() -> None:
    place = ("raw", 2, "1 MB")
    measured = {"tfring": Times(((0.001, 0.001),)), "memcpy": Times(((0.0005,),))}
    findings = Findings({place: measured})
    assert findings.ratio(place, "tfring", "memcpy") == 2.0
    assert findings.difference(place, "tfring", "memcpy") == 0.0005
    assert findings.ratio(place, "tfring", "gloo") is None
    assert findings.difference(("raw", 4, "1 MB"), "tfring", "memcpy") is None
    assert findings.works("raw", 2) == ["1 MB"]
    first = findings.records()[0]
    assert (first["engine"], first["median_s"], first["rounds_s"]) == ("tfring", 0.001, [0.001])
