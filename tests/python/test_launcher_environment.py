"""What workers find in their environment."""

from __future__ import annotations

import pytest

from tfring.errors import LaunchError
from tfring.launcher.environment import (
    forwarded_variables,
    placement_variables,
    requested_variables,
    thread_variables,
)
from tfring.launcher.hosts import Host, assign


def test_placement() -> None:
    last = assign([Host("one", 2), Host("two", 1)], None)[-1]
    assert placement_variables(last) == {
        "TFRING_RANK": "2",
        "TFRING_SIZE": "3",
        "TFRING_LOCAL_RANK": "0",
        "TFRING_LOCAL_SIZE": "1",
        "TFRING_CROSS_RANK": "1",
        "TFRING_CROSS_SIZE": "2",
        "TFRING_HOST_ID": "1",
    }


@pytest.mark.parametrize(
    ("cores", "workers", "share"),
    [(8, 2, "4"), (8, 3, "2"), (2, 2, "1"), (2, 8, "1"), (1, 1, "1")],
)
def test_each_worker_gets_its_share(cores: int, workers: int, share: str) -> None:
    assert thread_variables(cores, workers, {}) == {
        "OMP_NUM_THREADS": share,
        "TF_NUM_INTRAOP_THREADS": share,
        "TF_NUM_INTEROP_THREADS": share,
    }


@pytest.mark.parametrize(
    "name", ["OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"]
)
def test_the_user_has_the_last_word_on_threads(name: str) -> None:
    others = {key: value for key, value in thread_variables(8, 2, {}).items() if key != name}
    assert thread_variables(8, 2, {name: "3"}) == others
    assert thread_variables(8, 2, {name: ""}) == thread_variables(8, 2, {})


def test_requested_variables() -> None:
    here = {"SET": "here", "OTHER": "x"}
    assert requested_variables(["SET", "NEW=a=b", "EMPTY="], here) == {
        "SET": "here",
        "NEW": "a=b",
        "EMPTY": "",
    }


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ("MISSING", "MISSING: the variable is not set"),
        ("=x", "expected NAME"),
        ("A B=x", "expected NAME"),
        ("1A=x", "expected NAME"),
    ],
)
def test_bad_requests(request_: str, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        requested_variables([request_], {})


def test_other_hosts_get_what_concerns_training() -> None:
    here = {"PATH": "/bin", "TF_X": "1", "KERAS_BACKEND": "t", "HOME": "mine", "AWS_KEY": "no"}
    assert forwarded_variables(here) == {"PATH": "/bin", "TF_X": "1", "KERAS_BACKEND": "t"}
