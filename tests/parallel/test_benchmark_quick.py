"""`python -m benchmarks` from end to end, on little work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def benchmarks(*arguments: str, output: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", "--output", str(output), *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_a_quick_run_writes_tables_data_and_charts(tmp_path: Path, ranks: int) -> None:
    engines = ("--sections", "raw", "--engines", "tfring", "memcpy", "--np", str(ranks))
    result = benchmarks(*engines, output=tmp_path)
    assert result.returncode == 0, result.stderr
    page = (tmp_path / "latest.md").read_text()
    assert f"Allreduce in place, without TensorFlow: {ranks} processes" in page
    assert (tmp_path / "latest-raw-times.png").exists()
    measured = json.loads((tmp_path / "latest.json").read_text())["measurements"]
    assert {(one["work"], one["engine"]) for one in measured} == {
        (work, engine) for work in ("4 KB", "1 MB") for engine in ("tfring", "memcpy")
    }
    assert all(one["median_s"] >= one["min_s"] > 0 for one in measured)


def test_a_run_without_anything_to_measure_fails(tmp_path: Path) -> None:
    result = benchmarks("--sections", "raw", "--engines", "nobody", output=tmp_path)
    assert result.returncode == 2
    assert "unknown engine" in result.stderr
    assert not list(tmp_path.iterdir())
