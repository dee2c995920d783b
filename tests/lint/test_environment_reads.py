"""Configuration enters in one place."""

from __future__ import annotations

import ast
import re

import sources

READER = "tfring/config.py"
NAMES = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}


def test_python_reads_the_environment_in_one_file() -> None:
    for path in sources.library_python():
        if sources.name(path) == READER:
            continue
        for node in ast.walk(sources.tree(path)):
            found = isinstance(node, ast.Attribute) and node.attr in NAMES
            imported = isinstance(node, ast.ImportFrom) and any(
                alias.name in NAMES for alias in node.names
            )
            assert not (found or imported), (
                f"{sources.name(path)}:{node.lineno} touches the environment; only {READER} may"
            )


def test_cxx_reads_no_environment() -> None:
    for path in sources.library_cxx():
        found = re.search(r"\b(secure_)?getenv\b|\benviron\b", path.read_text())
        assert not found, f"{sources.name(path)} reads the environment"
