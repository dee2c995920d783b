"""How many cores this process may use: its affinity, and the quota of its control groups.

A container started with `docker run --cpus=2` may run on every core of its host, but for two
cores' time only: as many threads as cores would then mostly be throttled.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath


def usable_cores() -> int:
    """The cores that this process may use, at least 1."""
    cores = len(os.sched_getaffinity(0))
    quota = cpu_quota()
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def cpu_quota(root: Path = Path("/")) -> float | None:
    """The least quota, in cores, of the control groups that hold this process.

    Args:
        root: Where proc and sys are mounted; another for tests.

    Returns:
        None without a quota.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    quotas = []
    for line in lines:
        # hierarchy:controllers:path; version 2 has no controllers, see cgroups(7).
        _, controllers, path = line.split(":", 2)
        if not controllers:
            quotas += _quotas(root / "sys/fs/cgroup", path, _version_2)
        elif "cpu" in controllers.split(","):
            quotas += _quotas(root / "sys/fs/cgroup/cpu", path, _version_1)
    return min(quotas, default=None)


def _quotas(mount: Path, path: str, read: Callable[[Path], float | None]) -> list[float]:
    """Quotas of a group and of all above it. In a container the outer ones do not show."""
    group = PurePosixPath(path.lstrip("/"))
    found = []
    for ancestor in (group, *group.parents):
        try:
            quota = read(mount / ancestor)
        except (OSError, ValueError):
            continue
        if quota is not None:
            found.append(quota)
    return found


def _version_2(group: Path) -> float | None:
    quota, period = (group / "cpu.max").read_text(encoding="ascii").split()
    return None if quota == "max" else int(quota) / int(period)


def _version_1(group: Path) -> float | None:
    quota = int((group / "cpu.cfs_quota_us").read_text(encoding="ascii"))
    return None if quota < 0 else quota / int((group / "cpu.cfs_period_us").read_text())
