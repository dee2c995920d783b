"""Bringing the parts of ranks together where there is no launcher."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from harness.timeline_parts import record, write_part
from tfring import engine, native
from tfring.config import Config
from tfring.errors import InvalidArgumentError, NotInitializedError, TfringError
from tfring.monitoring.timeline import part as parts
from tfring.monitoring.timeline import recording
from tfring.monitoring.timeline.recording import Recording, StepMarker
from tfring.monitoring.timeline.summary import load


def config_of(rank: int, port: int, **more) -> Config:
    settings = {"cross_rank": rank, "cross_size": 2, "secret": "s", "store": f"127.0.0.1:{port}"}
    return Config.from_environment({}, rank=rank, size=2, **settings, **more)


def test_a_part_of_another_host_comes_through_the_store(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(recording, "_CHUNK", 100)
    target = tmp_path / "t.json"
    many = [record(parts.INSTANT, begin=time, text=f"number {time}") for time in range(1, 20)]
    write_part(tmp_path / "here", 0, [record(parts.END)])
    write_part(tmp_path / "there", 1, [*many, record(parts.END)])
    with native.StoreServer("127.0.0.1", 0, secret="s") as server:
        here = Recording(config_of(0, server.port), target, tmp_path / "here", launched=False)
        there = Recording(config_of(1, server.port), target, tmp_path / "there", launched=False)
        monkeypatch.setattr(Recording, "_key", lambda _, rank, what: f"timeline/{rank}/{what}")
        sender = threading.Thread(target=there.gather)
        sender.start()
        merged = here.gather()
        sender.join(30)
    assert merged is not None and merged.ranks == [0, 1] and not merged.incomplete
    names = [event["name"] for event in load(target)["traceEvents"]]
    assert "number 19" in names
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]


def test_rank_0_does_not_wait_for_ever(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(recording, "_BROKEN_WAIT_S", 0.2)
    write_part(tmp_path / "here", 0, [record(parts.END)])
    with native.StoreServer("127.0.0.1", 0, secret="s") as server:
        config = config_of(0, server.port)
        here = Recording(config, tmp_path / "t.json", tmp_path / "here", launched=False)
        merged = here.gather(healthy=False)
    assert merged is not None and merged.missing == [1]


def test_start_and_stop(tmp_path: Path) -> None:
    with pytest.raises(NotInitializedError):
        engine.start_timeline(str(tmp_path / "t.json"))
    engine.stop_timeline()
    engine.init(Config.from_environment({}))
    try:
        with pytest.raises(TfringError, match="timeline"):
            engine.start_timeline("/proc/nowhere/t.json")
        engine.start_timeline(str(tmp_path / "t.json"))
        with pytest.raises(InvalidArgumentError, match="recorded already"):
            engine.start_timeline(str(tmp_path / "u.json"))
        marker = StepMarker()
        marker.begin()
        marker.end(3)
        recording.message("a message")
        engine.stop_timeline()
        # It has ended: nothing is written any more.
        assert not recording.is_recording()
        marker.end()
    finally:
        engine.shutdown()
    events = load(tmp_path / "t.json")["traceEvents"]
    assert [e["args"]["steps"] for e in events if e.get("cat") == "step"] == [3]
    assert "a message" in {event["name"] for event in events}


def test_shutdown_ends_it_too(tmp_path: Path) -> None:
    engine.init(Config.from_environment({}, timeline=str(tmp_path / "t.json")))
    assert recording.is_recording()
    engine.shutdown()
    assert not recording.is_recording()
    assert load(tmp_path / "t.json")["otherData"]["ranks"] == [0]
