"""Constants are found again in what a model with them predicts."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from benchmarks.fitting import fit

BYTES = [2.0**k for k in range(8, 28, 2)]
START = {"latency_s": 1e-5, "seconds_per_byte": 1e-10}


def line(constants: Mapping[str, float]) -> list[float]:
    return [constants["latency_s"] + b * constants["seconds_per_byte"] for b in BYTES]


def test_constants_are_found_again() -> None:
    true = {"latency_s": 3e-6, "seconds_per_byte": 4e-9}
    found = fit(line, line(true), START)
    assert found["latency_s"] == pytest.approx(3e-6, rel=0.05)
    assert found["seconds_per_byte"] == pytest.approx(4e-9, rel=0.05)


def test_a_wrong_point_moves_them_little() -> None:
    true = {"latency_s": 3e-6, "seconds_per_byte": 4e-9}
    measured = line(true)
    measured[-1] *= 1.2
    assert fit(line, measured, START)["seconds_per_byte"] == pytest.approx(4e-9, rel=0.1)


def test_what_no_point_depends_on_stays() -> None:
    found = fit(line, line(START), {**START, "other": 7.0})
    assert found["other"] == pytest.approx(7.0)


def test_a_model_of_other_points_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 1 positive times, received 10"):
        fit(line, [1.0], START)
