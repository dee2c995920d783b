"""The search for the fastest setting, with times that are made up."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tfring import bucket_size
from tfring.bucket_search import BucketSearch, Outcome

MOST_STEPS = 200


def search(
    candidates: list[int], seconds: Callable[[int, int], float], ranks: float = 1.0
) -> tuple[Outcome[int], list[int]]:
    """The outcome when step i with a setting takes `seconds(setting, i)`, and what was tried."""
    found = BucketSearch(candidates, agree=lambda values: [value * ranks for value in values])
    tried: list[int] = []
    while found.outcome is None:
        assert len(tried) < MOST_STEPS
        tried.append(found.setting)
        found.observe(seconds(found.setting, len(tried)))
    assert found.setting == found.outcome.chosen
    return found.outcome, tried


def test_the_fastest_is_found_and_its_gain_told() -> None:
    times = {25: 1.0, 4: 0.8, 1: 0.9}
    outcome, tried = search([25, 4, 1], lambda setting, _: times[setting], ranks=4.0)
    assert (outcome.chosen, outcome.start) == (4, 25)
    assert (outcome.chosen_s, outcome.start_s) == pytest.approx((0.8, 1.0))
    assert outcome.gain == pytest.approx(0.2)
    # In the end the two alternate.
    assert set(tried[-36:]) == {25, 4}


def test_the_start_stays_if_it_is_the_fastest() -> None:
    outcome, tried = search([25, 4], lambda setting, _: 1.0 if setting == 25 else 1.2)
    assert outcome.chosen == 25 and "no other" in outcome.reason
    assert len(tried) == 16


def test_ties_and_small_gains_keep_the_start() -> None:
    for other in (1.0, 0.995):
        outcome, _ = search([25, 4], lambda setting, _, other=other: other if setting == 4 else 1.0)
        assert outcome.chosen == 25


def test_what_looked_fast_at_first_must_prove_it() -> None:
    def seconds(setting: int, step: int) -> float:
        return 0.5 if setting == 4 and step <= 16 else 1.0

    outcome, tried = search([25, 4], seconds)
    assert len(tried) > 16
    assert outcome.chosen == 25 and "did not win clearly" in outcome.reason


def test_the_first_step_of_a_turn_does_not_count() -> None:
    """It may trace the function, which takes long."""
    last = [0]

    def seconds(setting: int, _: int) -> float:
        changed, last[0] = setting != last[0], setting
        return 100.0 if changed and setting == 4 else (0.5 if setting == 4 else 1.0)

    assert search([25, 4], seconds)[0].chosen == 4


@pytest.mark.parametrize("seed", range(30))
def test_chance_alone_rarely_moves_it_and_never_far(seed: int) -> None:
    chance = random.Random(seed)
    true = {25: 1.0, 16: 1.0, 4: 1.0, 64: 1.1}
    outcome, _ = search(list(true), lambda setting, _: true[setting] * chance.uniform(0.9, 1.3))
    assert true[outcome.chosen] <= true[outcome.start]


@pytest.mark.parametrize("seed", range(10))
def test_a_clear_winner_is_found_in_spite_of_noise(seed: int) -> None:
    chance = random.Random(seed)
    true = {25: 1.0, 4: 0.6, 64: 1.2}
    outcome, _ = search(list(true), lambda setting, _: true[setting] * chance.uniform(1.0, 1.3))
    assert outcome.chosen == 4


def test_nothing_to_choose_from() -> None:
    outcome, tried = search([25], lambda *_: 1.0)
    assert outcome.chosen == 25 and tried == [] and outcome.gain == 0.0


def test_stopping_keeps_the_start() -> None:
    found = BucketSearch([25, 4], agree=lambda values: values)
    for _ in range(5):
        found.observe(1.0)
    found.stop("no more data")
    assert found.outcome is not None and found.outcome.chosen == found.setting == 25


def test_sizes_that_make_a_difference(monkeypatch) -> None:
    monkeypatch.setattr(bucket_size._InUse, "planned", set())
    monkeypatch.setattr(bucket_size._InUse, "tuned", None)
    assert bucket_size.distinct([100, 10, 1000]) == [100]  # nothing known yet
    bucket_size.note_plan([40, 40, 40], ["f4"] * 3)
    assert bucket_size.distinct([100, 10, 200, 1000]) == [100, 10]
    assert bucket_size.current(7) == 7
    bucket_size.use(9)
    assert bucket_size.current(7) == 9
