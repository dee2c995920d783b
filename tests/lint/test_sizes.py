"""A file or function that grows too long has a second idea in it."""

from __future__ import annotations

import ast

import pytest

import sources

FILE_LINES = 350
TEST_FILE_LINES = 700
FUNCTION_LINES = 80

LIBRARY = [*sources.library_python(), *sources.library_cxx()]
TESTS = sources.files("tests", "examples", "benchmarks", suffixes=(".py", ".cc", ".h"))


@pytest.mark.parametrize(
    ("paths", "limit"),
    [(LIBRARY, FILE_LINES), (TESTS, TEST_FILE_LINES)],
    ids=["library", "tests"],
)
def test_files_are_short(paths, limit: int) -> None:
    lengths = {sources.name(path): len(path.read_text().splitlines()) for path in paths}
    assert not {name: lines for name, lines in lengths.items() if lines > limit}


def test_python_functions_are_short() -> None:
    long = []
    for path in sources.library_python():
        for node in ast.walk(sources.tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) is not None else node.body
                lines = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
                if lines > FUNCTION_LINES:
                    long.append(f"{sources.name(path)}:{node.lineno} {node.name}: {lines} lines")
    assert not long


def test_cxx_functions_are_short() -> None:
    """A body starts at a line that ends in `{` and closes at a `}` of the same indentation."""
    long = []
    for path in sources.library_cxx():
        lines = path.read_text().splitlines()
        opened: int | None = None
        for number, line in enumerate(lines, 1):
            starts_body = line.endswith("{") and not line.startswith((" ", "namespace", "extern"))
            declares_type = line.startswith(("class", "struct", "enum", "union"))
            if starts_body and not declares_type:
                opened = number
            elif line.startswith("}") and opened is not None:
                if number - opened > FUNCTION_LINES:
                    long.append(f"{sources.name(path)}:{opened}: {number - opened} lines")
                opened = None
    assert not long
