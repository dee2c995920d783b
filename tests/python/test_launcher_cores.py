"""Cores that workers may use, by control groups as they lie in /proc and /sys."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfring.launcher.cores import cpu_quota, usable_cores


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


V1 = "4:cpuset:/\n3:cpu,cpuacct:/docker/abc\n"


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/\n"}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "250000 100000\n"}, 2.5),
        (
            {
                "proc/self/cgroup": "0::/slice/job\n",
                "sys/fs/cgroup/slice/cpu.max": "150000 100000\n",
                "sys/fs/cgroup/slice/job/cpu.max": "400000 100000\n",
            },
            1.5,
        ),
        (
            {
                "proc/self/cgroup": V1,
                "sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us": "50000\n",
                "sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us": "100000\n",
            },
            0.5,
        ),
        (
            {
                "proc/self/cgroup": V1,
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "nonsense"}, None),
    ],
)
def test_quota(tmp_path: Path, files: dict[str, str], quota: float | None) -> None:
    write(tmp_path, files)
    assert cpu_quota(tmp_path) == quota


def test_no_more_than_the_affinity_allows() -> None:
    assert 1 <= usable_cores() <= len(os.sched_getaffinity(0))
