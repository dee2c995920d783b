"""The files that the lint tests look at."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = {".git", ".venv", "build", "dist", "lib", "__pycache__", "logs"}


def files(*directories: str, suffixes: tuple[str, ...]) -> list[Path]:
    """Files below `directories` of the project with one of `suffixes`, in order."""
    found = []
    for directory in directories:
        for path in sorted((ROOT / directory).rglob("*")):
            parts = path.relative_to(ROOT).parts
            hidden = SKIPPED.intersection(parts) or any("egg-info" in part for part in parts)
            if path.suffix in suffixes and path.is_file() and not hidden:
                found.append(path)
    return found


def library_python() -> list[Path]:
    return files("tfring", "callbacks", suffixes=(".py",))


def library_cxx() -> list[Path]:
    return files("custom_ops", suffixes=(".cc", ".h"))


def name(path: Path) -> str:
    """The path below the project's root, for messages."""
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    """`callbacks/monitor.py` is `tfring.callbacks.monitor`."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[0] == "callbacks":
        parts.insert(0, "tfring")
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))
