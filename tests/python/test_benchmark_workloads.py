"""benchmarks/workloads.py and barrier.py."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from benchmarks.barrier import Barrier
from benchmarks.workloads import (
    ALLREDUCE_BYTES,
    Workload,
    resnet50_gradients,
    single,
    size_text,
    thousand_small,
)


def test_sizes_have_names() -> None:
    assert [size_text(size) for size in (512, *ALLREDUCE_BYTES)] == [
        *("512 B", "4 KB", "64 KB", "1 MB", "16 MB", "64 MB", "256 MB")
    ]


def test_half_types_have_as_many_elements() -> None:
    assert single(4096, "bfloat16").elements == single(4096).elements == 1024
    assert single(4096, "bfloat16").bytes == 2048


def test_resnet50_has_161_gradients_of_102_mb() -> None:
    work = resnet50_gradients()
    assert len(work.shapes) == 161
    assert round(work.bytes / 1e6) == 102


def test_workloads_travel_as_json() -> None:
    for work in (thousand_small(), single(4096, "float16")):
        assert Workload.from_json(json.loads(json.dumps(work.to_json()))) == work


def test_nobody_passes_a_barrier_alone(tmp_path: Path) -> None:
    path = tmp_path / "barrier"
    Barrier.create(path, 2)
    first, second = Barrier(path, 0, 2), Barrier(path, 1, 2)
    arrived: list[float] = []
    other = threading.Thread(target=lambda: arrived.extend(second.wait() for _ in range(3)))
    other.start()
    own = [first.wait() for _ in range(3)]
    other.join(30)
    assert len(arrived) == 3
    assert max(own[0], arrived[0]) <= min(own[1], arrived[1])


def test_a_barrier_names_who_is_missing(tmp_path: Path) -> None:
    Barrier.create(tmp_path / "barrier", 3)
    with pytest.raises(TimeoutError, match=r"ranks \[0, 2\] did not come"):
        Barrier(tmp_path / "barrier", 1, 3).wait(limit_s=0.01)
