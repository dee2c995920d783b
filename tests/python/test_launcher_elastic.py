"""The rules of elastic jobs, without processes: who is a member, with which rank, and when."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tfring.errors import LaunchError
from tfring.launcher.elastic.discovery import Discovery, parse_hosts
from tfring.launcher.elastic.places import assign_ranks, places
from tfring.launcher.elastic.restarts import Restarts
from tfring.launcher.elastic.roster import Limits, Phase, Roster
from tfring.launcher.elastic.silence import Silence
from tfring.launcher.hosts import Host


@pytest.mark.parametrize(
    ("members", "before", "expected"),
    [
        ([0, 1, 2], {}, {0: 0, 1: 1, 2: 2}),
        ([0, 2, 3], {0: 0, 1: 1, 2: 2, 3: 3}, {0: 0, 2: 2, 3: 1}),
        ([1, 2], {0: 0, 1: 1, 2: 2}, {1: 1, 2: 0}),
        ([1, 2, 7], {0: 0, 1: 1, 2: 2}, {1: 1, 2: 0, 7: 2}),
        ([1, 7, 8], {0: 0, 1: 1}, {1: 0, 7: 1, 8: 2}),
        ([7, 8], {0: 0, 1: 1}, {7: 0, 8: 1}),
    ],
)
def test_ranks_change_as_little_as_possible(members, before, expected) -> None:
    assert assign_ranks(members, before) == expected


def test_places_know_hosts() -> None:
    found = places({4: 0, 7: 1, 5: 2}, {4: "a", 5: "a", 7: "b"})
    assert found[5] == {
        "rank": 2,
        "size": 3,
        "local_rank": 1,
        "local_size": 2,
        "cross_rank": 0,
        "cross_size": 2,
        "host_id": "a",
    }
    assert found[7]["cross_rank"] == 1


def roster_of(size: int, *, least: int = 1, most: int = 10) -> Roster:
    """With one generation of so many members, all of which have joined it."""
    roster = Roster(Limits(least, most))
    for slot in range(size):
        roster.ready(roster.start("here", slot).number)
    roster.next_generation()
    for number in range(size):
        roster.joined(number, 1, 0.0)
    return roster


def test_a_death_needs_a_generation_of_those_who_are_left() -> None:
    roster = roster_of(3)
    assert not roster.needs_generation()
    roster.ended(0, "was killed")
    assert roster.needs_generation()
    generation = roster.next_generation()
    assert generation.number == 2
    assert set(generation.places) == {"w1", "w2"}
    assert "w0 on here was killed" in generation.reason
    assert not roster.needs_generation()


def test_whom_the_others_have_lost_is_excluded() -> None:
    roster = roster_of(3)
    suspects = roster.failed(0, 1, [2])
    assert [worker.id for worker in suspects] == ["w2"]
    # What it says itself does not count any more, nor do others accuse it again.
    assert roster.failed(2, 1, [0]) == []
    assert roster.failed(1, 1, [2]) == []
    assert set(roster.next_generation().places) == {"w0", "w1"}
    roster.ended(2, "was killed")
    assert not roster.needs_generation()


def test_a_member_that_dies_is_missed_before_it_has_ended() -> None:
    roster = roster_of(3)
    assert roster.dying(1) is roster.workers[1]
    assert roster.dying(1) is None
    generation = roster.next_generation()
    assert generation.reason == "w1 on here has died"
    assert set(generation.places) == {"w0", "w2"}
    roster.ended(1, "was ended by signal 9 (SIGKILL)")
    assert not roster.needs_generation()


def test_an_end_of_its_own_making_has_to_be_judged_first() -> None:
    roster = roster_of(2)
    roster.raised(1)
    assert roster.dying(1) is None
    assert not roster.needs_generation()
    newcomer = roster.start("here", 2)
    assert roster.dying(newcomer.number) is None


def test_reports_of_earlier_generations_are_void() -> None:
    roster = roster_of(2)
    roster.ended(0, "was killed")
    roster.next_generation()
    assert roster.failed(1, 1, [0]) == []
    assert not roster.needs_generation()


def test_newcomers_join_as_far_as_there_is_room() -> None:
    roster = roster_of(2, most=3)
    for slot in (2, 3):
        roster.ready(roster.start("here", slot).number)
    assert set(roster.next_generation().places) == {"w0", "w1", "w2"}
    assert not roster.needs_generation()


def test_a_drained_member_is_left_out() -> None:
    roster = roster_of(2)
    roster.drain(1, "its slot is gone")
    assert set(roster.next_generation().places) == {"w0"}
    assert roster.workers[1].phase is Phase.LEAVING


def test_enough_is_what_is_asked_for_until_somebody_has_finished() -> None:
    roster = roster_of(3, least=2)
    roster.ended(0, "was killed")
    assert roster.enough()
    roster.ended(1, "was killed")
    assert not roster.enough()
    assert roster_of(3, least=2).finished(0) == []


def test_an_end_interrupts_nobody_who_has_come_as_far() -> None:
    roster = roster_of(2)
    newcomer = roster.start("here", 2)
    assert roster.finished(0) == [newcomer]
    assert not roster.needs_generation()


def test_who_has_not_joined_yet_goes_on_without_those_that_have_ended() -> None:
    roster = roster_of(3)
    roster.ended(2, "was killed")
    roster.next_generation()
    roster.joined(0, 2, 0.0)
    assert roster.finished(0) == []
    assert set(roster.next_generation().places) == {"w1"}


def test_a_slot_pauses_longer_after_each_loss() -> None:
    restarts = Restarts(cooldown_s=10)
    restarts.lost("a", 0, member_s=1, now=100)
    assert restarts.may_start("a", 0, 100)
    restarts.lost("a", 0, member_s=1, now=100)
    assert not restarts.may_start("a", 0, 100.9)
    assert restarts.next_start(100) == 101
    assert restarts.may_start("a", 0, 101)
    assert restarts.may_start("a", 1, 100)


def test_a_host_that_keeps_failing_is_set_aside_and_comes_back() -> None:
    restarts = Restarts(cooldown_s=10)
    aside = [restarts.lost("a", slot, member_s=1, now=0) for slot in range(4)]
    assert aside == [0, 0, 0, 10]
    assert restarts.host_is_aside("a", 9) and not restarts.host_is_aside("a", 10)
    assert not restarts.host_is_aside("b", 0)
    assert [restarts.lost("a", slot, member_s=1, now=20) for slot in range(4)][-1] == 20
    # After one that had proven itself the count begins anew.
    restarts.lost("a", 0, member_s=1000, now=50)
    assert [restarts.lost("a", slot, member_s=1, now=60) for slot in range(3)][-1] == 10


def test_what_a_discovery_script_may_print() -> None:
    assert parse_hosts("one:2\n# a comment\n\ntwo\n") == [Host("one", 2), Host("two", 1)]
    assert parse_hosts("") == []
    with pytest.raises(LaunchError, match="-x"):
        parse_hosts("-x")


def test_a_discovery_script_runs_again_and_may_fail(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("one:2\n")
    discovery = Discovery(f"cat {hosts}")
    assert discovery.wait() == [Host("one", 2)]
    hosts.unlink()
    deadline = time.monotonic() + 30
    with pytest.raises(LaunchError, match="exited with status 1"):
        while time.monotonic() < deadline:
            discovery.poll()
            time.sleep(0.02)
    discovery.close()


def test_who_is_done_is_a_member_no_more() -> None:
    roster = roster_of(3)
    newcomer = roster.start("here", 3)
    assert roster.done(0) == [newcomer]
    assert roster.finishing
    roster.ended(1, "was killed")
    assert set(roster.next_generation().places) == {"w2"}
    roster.done(2)
    assert not roster.needs_generation()
    assert roster.finishing


def test_a_loss_after_the_last_is_done_needs_no_generation() -> None:
    roster = roster_of(2)
    roster.done(0)
    roster.ended(1, "was killed")
    assert not roster.needs_generation()


def test_another_training_begins_when_all_are_done_with_the_first() -> None:
    roster = roster_of(2)
    assert roster.done(0) == []
    roster.ready(0)
    assert not roster.needs_generation()
    assert roster.done(1) == []
    roster.ready(1)
    assert not roster.finishing
    assert set(roster.next_generation().places) == {"w0", "w1"}


def test_silence_counts_from_the_announcement_for_those_who_are_awaited() -> None:
    roster, silence = roster_of(3), Silence(10.0)
    assert silence.next_check(roster.awaited()) == float("inf")
    roster.ended(0, "was killed")
    roster.next_generation()
    silence.announced(100.0)
    silence.heard(1, 105.0)
    assert roster.awaited() == [1, 2]
    assert silence.silent(roster.awaited(), 109.0) == []
    assert silence.next_check(roster.awaited()) == 110.0
    assert silence.silent(roster.awaited(), 110.0) == [2]
    roster.silent(2)
    assert "w2 on here does not answer" in roster.next_generation().reason
    roster.joined(1, 3, 0.0)
    assert roster.awaited() == []


def test_silence_may_last_for_ever() -> None:
    assert Silence(0.0).silent([1], 1e9) == []
