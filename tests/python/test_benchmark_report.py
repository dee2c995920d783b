"""benchmarks/report.py, charts.py and presentation.py: what a person gets to see."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import charts, presentation
from benchmarks.findings import Findings
from benchmarks.provenance import provenance
from benchmarks.report import Report, Table, milliseconds, significant
from benchmarks.timing import Times

PNG = b"\x89PNG\r\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.012345, "0.0123"), (4.5678, "4.57"), (145.2, "145"), (1234.5, "1230")],
)
def test_significant_digits(value: float, text: str) -> None:
    assert significant(value) == text


def test_milliseconds() -> None:
    assert milliseconds(0.00123456) == "1.23"
    assert milliseconds(2e-8) == "0.000020"


def test_a_table_is_aligned() -> None:
    table = Table("T", ("work", "ms"), [("4 KB", "0.1"), ("a|b", "12.25")], "Note.")
    assert table.markdown().splitlines() == [
        "## T",
        "",
        "| work |    ms |",
        "| ---- | ----: |",
        "| 4 KB |   0.1 |",
        "| a\\|b | 12.25 |",
        "",
        "Note.",
    ]


def test_a_table_refuses_rows_of_another_width() -> None:
    with pytest.raises(ValueError, match="expected 2 cells"):
        Table("T", ("a", "b"), [("1",)]).markdown()


def test_a_report_is_a_page_and_data(tmp_path: Path) -> None:
    report = Report(
        "Title", {"commit": "abc"}, [Table("T", ("a",), [("1",)])], {"x.png": "A chart"}
    )
    report.measurements.append({"engine": "tfring", "median_s": 0.5})
    page = report.write(tmp_path / "new", "run")
    assert page.read_text().startswith("# Title\n\n- commit: abc\n")
    assert "![A chart](x.png)" in page.read_text()
    data = json.loads(page.with_suffix(".json").read_text())
    assert data["measurements"] == [{"engine": "tfring", "median_s": 0.5}]
    assert data["tables"][0]["rows"] == [["1"]]


def test_provenance_says_what_and_where() -> None:
    found = provenance(peers="Open MPI 4")
    assert {"date", "commit", "processor", "versions", "command", "peers"} <= found.keys()
    assert "cores" in found["processor"]


def test_labels_share_their_engine_s_colour() -> None:
    assert charts.colour("tfring op") == charts.colour("tfring")
    assert charts.colour("Horovod (MPI)") == charts.colour("Horovod (MPI)")
    assert charts.colour("Horovod (MPI)") != charts.colour("Horovod (gloo)")


def test_everything_measured_is_shown(tmp_path: Path) -> None:
    times = {
        ("raw", 2, "4 KB"): {"tfring": Times(((1e-5,),)), "open_mpi": Times(((2e-5,),))},
        ("raw", 2, "1 MB"): {"tfring": Times(((1e-3,),)), "open_mpi": Times(((3e-3,),))},
        ("half", 2, "1 MB"): {"float32": Times(((1e-3,),)), "float16": Times(((5e-4,),))},
        ("training", 2, "cnn"): {"alone": Times(((0.1,),)), "tfring": Times(((0.101,),))},
    }
    figures = {("idle", 2, "tfring"): 0.0, ("late", 2, "tfring"): 0.001}
    report = Report("Title", {})
    findings = Findings(dict(times), figures, {"PyTorch gloo": "torch not installed"})
    presentation.fill(report, findings, tmp_path, "run")
    for file in report.charts:
        assert (tmp_path / file).read_bytes().startswith(PNG)
    assert set(report.charts) == {"run-raw-times.png", "run-raw-ratios.png", "run-training.png"}
    text = report.markdown()
    for part in ("Open MPI / tfring", "99.0 %", "torch not installed", "0.0010"):
        assert part in text
