"""`tfringrun --check-build`: what is installed, without importing any of it."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import sys

from tfring import native
from tfring.errors import TfringError


def report() -> int:
    """Prints versions; the exit status is 0 when workers could run."""
    ok = True
    lines = [
        f"tfring       {_version('tfring') or 'not installed'}",
        f"Python       {platform.python_version()} ({sys.executable})",
    ]
    folder = native.library_dir()
    try:
        native.load()
        lines.append(f"engine       {folder / 'libtfring.so'}, interface {native.ABI_VERSION}")
    except (TfringError, OSError) as error:
        ok = False
        lines.append(f"engine       missing: {error}")
    operations = folder / "libtfring_tf.so"
    if operations.exists():
        lines.append(f"operations   {operations}")
    else:
        ok = False
        lines.append(f"operations   missing: {operations}")
    # `tensorflow` and `tensorflow-cpu` hold the same files.
    found = [
        f"{name} {version}"
        for name in ("tensorflow", "tensorflow-cpu")
        if (version := _version(name)) is not None
    ]
    if found:
        lines.append(f"TensorFlow   {', '.join(found)}")
    else:
        ok = False
        lines.append("TensorFlow   missing: pip install 'tfring[cpu]' or 'tfring[gpu]'")
    lines.append(f"Keras        {_version('keras') or 'missing'}")
    lines.append(f"ssh          {shutil.which('ssh') or 'missing; needed for other hosts only'}")
    print("\n".join(lines))
    return 0 if ok else 1


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
