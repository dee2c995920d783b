"""Parts of ranks become one file, and a summary."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.timeline_parts import check_nesting, record, write_part
from tfring.errors import InvalidArgumentError, TfringError
from tfring.monitoring.timeline import __main__ as command
from tfring.monitoring.timeline import part as parts
from tfring.monitoring.timeline.merge import merge
from tfring.monitoring.timeline.part import Part, PartError
from tfring.monitoring.timeline.summary import load, summarize, text

MS = 1_000_000


def step_records(rank: int, late_ms: int = 0) -> list[bytes]:
    """Two steps of 100 ms with two buckets each; this rank submits `late_ms` later."""
    records = [record(parts.START, rank=rank, size=2)]
    for step in range(2):
        at = step * 100 * MS
        for number, (begin, end) in enumerate([(30, 60), (50, 80)]):
            mine = at + (begin + late_ms) * MS
            started = at + (begin + 10) * MS
            records.append(
                record(
                    parts.OPERATION, rank=1, begin=mine, taken=mine, started=started,
                    end=at + end * MS, name_id=number, occurrence=step, size=1000,
                    work=(MS, 2 * MS, 0, 0), text=f"step/gradients{number}",
                )
            )  # fmt: skip
        records.append(record(parts.SPAN, begin=at, end=at + 100 * MS, size=1, text="step"))
    return records


def merged_events(directory: Path, target: Path, **options) -> tuple[dict, list[dict]]:
    merge(directory, target, **options)
    content = json.loads(target.read_text())
    return content, content["traceEvents"]


def test_a_file_with_all_ranks(tmp_path: Path) -> None:
    end = [record(parts.SHUT_DOWN, begin=200 * MS), record(parts.END)]
    write_part(tmp_path / "parts", 0, step_records(0) + end)
    write_part(tmp_path / "parts", 1, step_records(1, late_ms=10) + end)
    content, events = merged_events(tmp_path / "parts", tmp_path / "t.json", size=2)
    assert content["otherData"]["ranks"] == [0, 1]
    assert content["otherData"]["missing_ranks"] == content["otherData"]["incomplete_ranks"] == []
    assert not (tmp_path / "parts").exists()
    check_nesting(events)
    names = {(event["pid"], event["name"]) for event in events}
    assert (0, "wait for rank 1") in names
    assert (1, "begin") not in names and (1, "wait for rank 0") not in names
    assert (1, "engine shuts down") in names
    waits = [event for event in events if event["name"] == "wait for rank 1"]
    assert [event["dur"] for event in waits] == [10_000.0] * 4
    inside = [event for event in events if event["pid"] == 0 and event.get("cat") == "work"]
    assert [(event["name"], event["dur"]) for event in inside[:2]] == [
        ("copy", 1000.0),
        ("reduce", 2000.0),
    ]
    counter = [e["args"]["bytes"] for e in events if e["ph"] == "C" and e["pid"] == 0]
    assert counter == [1000, 2000, 1000, 0] * 2


def test_summary(tmp_path: Path) -> None:
    write_part(tmp_path / "parts", 0, [*step_records(0), record(parts.END)])
    write_part(tmp_path / "parts", 1, step_records(1, late_ms=10))
    merge(tmp_path / "parts", tmp_path / "t.json", size=3)
    summary = summarize(load(tmp_path / "t.json"))
    assert summary.operations == 4 and summary.last == {1: 4}
    rank = summary.ranks[0]
    assert (rank.steps, rank.step_ms, rank.exposed_ms, rank.wait_ms) == (2, 100.0, 30.0, 20.0)
    assert summary.ranks[1].exposed_ms == pytest.approx(20.0)
    shown = text(summary)
    assert "Rank 1 is the last most often: 4 of 4" in shown
    assert "Nothing is known of rank 2." in shown
    assert "The end is missing of rank 1." in shown


def test_summary_without_steps_says_how_to_mark_them(tmp_path: Path) -> None:
    write_part(tmp_path / "parts", 0, [record(parts.START, rank=0, size=1), record(parts.END)])
    merge(tmp_path / "parts", tmp_path / "t.json")
    assert "timeline_step" in text(summarize(load(tmp_path / "t.json")))


def test_measured_clocks(tmp_path: Path) -> None:
    """Rank 1's clock is an hour ahead."""
    hour = 3600 * 1000 * MS
    own = [record(parts.OPERATION, begin=MS, end=2 * MS, name_id=1, text="barrier")]
    asked = [
        record(parts.CLOCK, begin=hour + at, taken=at + 20_000, end=hour + at + 40_000)
        for at in (0, MS)
    ]
    shifted = [
        record(parts.OPERATION, begin=hour + MS, end=hour + 2 * MS, name_id=1, text="barrier")
    ]
    write_part(tmp_path / "parts", 0, own, clock="a")
    write_part(tmp_path / "parts", 1, asked + shifted, clock="b", begin=hour)
    content, events = merged_events(tmp_path / "parts", tmp_path / "t.json")
    clock = content["otherData"]["clocks"]["1"]
    assert clock == {"how": "2 exchanges with rank 0", "uncertainty_us": 20.0, "offset_us": -3.6e9}
    ends = [e["ts"] + e["dur"] for e in events if e["name"] == "barrier"]
    assert abs(ends[0] - ends[1]) <= 20.0


def test_a_rank_that_never_asked_goes_by_the_wall_clock(tmp_path: Path) -> None:
    write_part(tmp_path / "parts", 0, [], clock="a", begin=5, begin_unix=1000)
    write_part(tmp_path / "parts", 1, [], clock="b", begin=900, begin_unix=1000)
    content, _ = merged_events(tmp_path / "parts", tmp_path / "t.json")
    assert content["otherData"]["clocks"]["1"]["uncertainty_us"] is None
    assert "could not be aligned" in text(summarize(content))


def test_what_killed_ranks_leave(tmp_path: Path) -> None:
    directory = tmp_path / "parts"
    write_part(directory, 0, [*step_records(0), record(parts.END, size=17)])
    write_part(directory, 1, step_records(1), ragged=b"half a record")
    (directory / "rank-2.part").write_bytes(b"tfring time")
    (directory / "rank-3.part").write_bytes(b"")
    write_part(directory, 9, [])  # of another job
    merged = merge(directory, tmp_path / "t.json", size=5)
    assert (merged.ranks, merged.missing, merged.incomplete) == ([0, 1], [2, 3, 4], [1])
    assert merged.dropped == {0: 17}
    for said in ("of 2 ranks", "nothing of rank 2, 3, 4", "rank 1 did not end", "17 of rank 0"):
        assert said in merged.text()
    json.loads((tmp_path / "t.json").read_text())


def test_nothing_to_merge(tmp_path: Path) -> None:
    with pytest.raises(TfringError, match="no part of any rank"):
        merge(tmp_path, tmp_path / "t.json")
    (tmp_path / "x.part").write_bytes(b"something else entirely" * 20)
    with pytest.raises(PartError, match="no part of a timeline"):
        Part.open(tmp_path / "x.part")


def test_a_file_that_cannot_be_written_keeps_the_parts(tmp_path: Path) -> None:
    write_part(tmp_path / "parts", 0, step_records(0))
    with pytest.raises(TfringError, match="the parts are in"):
        merge(tmp_path / "parts", tmp_path / "nowhere" / "t.json")
    assert (tmp_path / "parts" / "rank-0.part").exists()


def test_command_line(tmp_path: Path, capsys) -> None:
    target = tmp_path / "t.json"
    write_part(tmp_path / "t.json.parts", 0, step_records(0))
    assert command.main([str(target), "--merge"]) == 0
    assert "timeline of 1 ranks" in capsys.readouterr().out
    assert command.main([str(target)]) == 0
    assert "rank  steps" in capsys.readouterr().out
    target.write_text("[]")
    with pytest.raises(InvalidArgumentError, match="expected a timeline"):
        load(target)
    assert command.main([str(target)]) == 1


def test_the_module_runs_without_numpy(tmp_path: Path) -> None:
    write_part(tmp_path / "t.json.parts", 0, step_records(0))
    code = (
        "import sys, tfring.monitoring.timeline.__main__ as m\n"
        f"m.main([{str(tmp_path / 't.json')!r}, '--merge'])\n"
        "assert not {'numpy', 'tensorflow'} & set(sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=dict(os.environ),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
