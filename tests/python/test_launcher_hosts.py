"""Host lists, hostfiles and the ranks that hosts get."""

from __future__ import annotations

import pytest

from tfring.errors import LaunchError
from tfring.launcher.hosts import Host, assign, parse_host_list, parse_hostfile


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one:2,two:3", [Host("one", 2), Host("two", 3)]),
        ("one", [Host("one", 1)]),
        (" one:2 , two ", [Host("one", 2), Host("two", 1)]),
        ("10.0.0.1:4", [Host("10.0.0.1", 4)]),
        ("[::1]:2,[fe80::1%eth0]", [Host("::1", 2), Host("fe80::1%eth0", 1)]),
        ("me@gpu-1.example.org:8", [Host("me@gpu-1.example.org", 8)]),
    ],
)
def test_host_lists(text: str, expected: list[Host]) -> None:
    assert parse_host_list(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "host list is empty"),
        ("one:2,,two", "an entry is empty"),
        ("one:", "has '' slots"),
        ("one:0", "has '0' slots"),
        ("one:-1", "has '-1' slots"),
        ("one:two", "has 'two' slots"),
        ("one:1.5", "has '1.5' slots"),
        (":2", "is no host"),
        ("-oProxyCommand=evil:1", "is no host"),
        ("one two:1", "is no host"),
        ("::1", "is no host"),
        ("one:1,one:2", "one is named twice"),
    ],
)
def test_bad_host_lists(text: str, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        parse_host_list(text)


def test_hostfile() -> None:
    text = "# the cluster\n\none slots=4\ntwo:2  # the small one\nthree\nfour slots = 3\n"
    assert parse_hostfile(text, "hosts") == [
        *(Host("one", 4), Host("two", 2), Host("three", 1), Host("four", 3))
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the hostfile hosts names no host"),
        ("# nothing\n", "names no host"),
        ("one\n\ntwo slots=x\n", "hosts, line 3: .* has 'x' slots"),
        ("one slots=0", "hosts, line 1: .* has '0' slots"),
        ("one slots=", "line 1: .* has '' slots"),
        ("one cores=2", "line 1: 'one cores=2' is no host"),
        ("one 2", "line 1: 'one 2' is no host"),
        ("one:2 slots=2", "line 1: 'one:2 slots=2' is no host"),
        ("one\ntwo\none:2\n", r"one is named twice \(hosts, line 3\)"),
    ],
)
def test_bad_hostfiles(text: str, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        parse_hostfile(text, "hosts")


def test_ranks_fill_one_host_after_another() -> None:
    placements = assign([Host("one", 2), Host("two", 3), Host("three", 1)], 4)
    assert [(p.host.name, p.rank, p.local_rank, p.local_size) for p in placements] == [
        *(("one", 0, 0, 2), ("one", 1, 1, 2)),
        *(("two", 2, 0, 2), ("two", 3, 1, 2)),
    ]
    assert [(p.size, p.cross_rank, p.cross_size) for p in placements] == [
        *((4, 0, 2), (4, 0, 2)),
        *((4, 1, 2), (4, 1, 2)),
    ]


def test_without_np_all_slots_are_taken() -> None:
    assert len(assign([Host("one", 2), Host("two", 3)], None)) == 5


def test_more_ranks_than_slots() -> None:
    with pytest.raises(LaunchError, match=r"-np 4 .* one:2, two:1 have 3"):
        assign([Host("one", 2), Host("two", 1)], 4)
