"""Nothing in the tree names a path of one machine."""

from __future__ import annotations

import re

import sources

# Home directories and working directories; system paths that every Linux has are fine.
PATHS = re.compile(r"(?<![\w.])/(?:root|home/[a-z]|Users/|work/|workspace/|opt/[a-z])")
SUFFIXES = (".py", ".cc", ".h", ".md", ".txt", ".cfg", ".toml", ".sh", ".c", ".yml", "")
WHERE = ("tfring", "callbacks", "custom_ops", "examples", "tests", "benchmarks", "docs", ".ci")


def test_no_paths_of_one_machine() -> None:
    top = [path for path in sources.ROOT.iterdir() if path.is_file() and path.suffix in SUFFIXES]
    found = []
    for path in [*top, *sources.files(*WHERE, suffixes=SUFFIXES)]:
        if path.name == "test_machine_paths.py":
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if PATHS.search(line):
                found.append(f"{sources.name(path)}:{number}: {line.strip()}")
    assert not found
