"""benchmarks/targets.py: what counts as met."""

from __future__ import annotations

from benchmarks import targets
from benchmarks.findings import Findings
from benchmarks.targets import Result
from benchmarks.timing import Times


def of(seconds: float) -> Times:
    return Times(((seconds,), (seconds,)))


def test_bars_are_upper_or_lower_limits() -> None:
    assert Result("t", 2, 1.0, 1.0, at_most=True).met
    assert Result("t", 2, 1.01, 1.0, at_most=True).met is False
    assert Result("t", 2, 4.0, 4.0, at_most=False).met
    assert Result("t", 2, 3.9, 4.0, at_most=False).met is False
    assert Result("t", 2, None, 4.0, at_most=False).met is None


def test_measurements_decide() -> None:
    findings = Findings(
        {
            ("raw", 2, "4 KB"): {"tfring": of(2.0), "open_mpi": of(1.0)},
            ("raw", 2, "256 MB"): {"tfring": of(1.0), "open_mpi": of(2.0), "memcpy": of(0.6)},
            ("ops", 2, "1 MB"): {
                "tfring": of(0.001),
                "tfring_op": of(0.0013),
                "no_reduction": of(0.0002),
            },
            ("training", 2, "cnn"): {"alone": of(0.98), "tfring": of(1.0)},
        }
    )
    found = {one.text: one for one in targets.results(findings)}
    assert found["allreduce 4 KB: tfring / Open MPI"].met is False
    assert found["allreduce 256 MB: tfring / Open MPI"].met
    assert found["allreduce 256 MB: tfring / memcpy"].met
    assert found["allreduce 1 MB: op - raw"].met
    assert found["training small CNN: speed against independent"].met
    assert found["training ResNet-50: speed against independent"].met is None
    note = targets.table(list(found.values())).note
    assert "4 met, 1 missed" in note
