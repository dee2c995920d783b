"""Ending epochs early, without ranks."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tfring.callbacks import agreed_steps
from tfring.callbacks.agreed_steps import AgreedSteps


def run_epochs(steps: AgreedSteps, length: int, at_once: int, epochs: int = 2) -> list[list[int]]:
    """What a train function gets to see that takes `at_once` elements a call."""
    dataset = tf.data.Dataset.range(length)
    seen: list[list[int]] = []

    def function(iterator):
        taken = []
        for _ in range(at_once):
            optional = iterator.get_next_as_optional()
            if not optional.has_value():
                break
            taken.append(int(optional.get_value()))
        if not taken:
            raise StopIteration
        seen[-1] += taken

    for _ in range(epochs):
        iterator = iter(dataset)
        seen.append([])
        with pytest.raises(StopIteration):
            for _ in range(length + 2):
                steps.run(function, iterator)
                if not steps.needed:  # then Keras counts
                    break
            else:
                raise AssertionError("no end")
    return seen


def test_nothing_is_needed_when_all_have_equally_many() -> None:
    steps = AgreedSteps([7, 7, 7])
    assert not steps.needed and steps.limit == 7


@pytest.mark.parametrize("at_once", [1, 2, 5, 20])
@pytest.mark.parametrize("length", [7, 10])
def test_all_stop_with_the_shortest(length: int, at_once: int) -> None:
    steps = AgreedSteps([10, 7], at_once)
    assert steps.needed and steps.limit == 7
    assert run_epochs(steps, length, at_once) == [list(range(7))] * 2


def test_the_warning_counts(recwarn) -> None:
    AgreedSteps([7, 7]).warn([7, 7])
    AgreedSteps([7, None]).warn([7, None])
    assert not recwarn
    with pytest.warns(RuntimeWarning, match=r"10 on rank 0, 7 on rank 1.*ends after 7"):
        AgreedSteps([10, 7]).warn([10, 7])


@pytest.mark.parametrize("at_once", [1, 3])
def test_unknown_numbers_are_agreed_on_step_by_step(monkeypatch, at_once: int) -> None:
    def others_have_five(batches, name):
        for _, batch in zip(range(5), batches, strict=False):
            yield batch

    monkeypatch.setattr(agreed_steps, "in_step", others_have_five)
    steps = AgreedSteps([None, 9], at_once)
    assert steps.needed and steps.limit is None
    assert run_epochs(steps, 9, at_once) == [list(range(5))] * 2
