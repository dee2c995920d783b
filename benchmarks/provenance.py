"""What a result was measured with: code, versions, machine, command."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_PACKAGES = ("tfring", "tensorflow-cpu", "tensorflow", "keras", "numpy", "torch", "mpi4py")


def commit() -> str:
    """Of the source tree, marked when files that count have changed since."""
    command = ["git", "-C", str(_ROOT), "describe", "--always", "--abbrev=12", "--dirty"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return result.stdout.strip()


def processor() -> str:
    """Its model and how many of its cores this process may use."""
    model = platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return f"{model}, {len(os.sched_getaffinity(0))} cores"


def versions(packages: Sequence[str] = _PACKAGES) -> str:
    """Of those packages that are installed, and of Python."""
    found = [f"Python {platform.python_version()}"]
    for package in packages:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def provenance(**more: str) -> dict[str, str]:
    """For a report.

    Args:
        **more: Further entries, such as the version of Open MPI.
    """
    module = Path(sys.argv[0])
    name = f"-m benchmarks.{module.stem}" if module.parent.name == "benchmarks" else str(module)
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(),
        "processor": processor(),
        "system": f"{platform.system()} {platform.release()}",
        "versions": versions(),
        "command": " ".join(["python", name, *sys.argv[1:]]),
        **more,
    }
