"""What users import is complete, documented and packaged."""

from __future__ import annotations

import ast
import configparser

import pytest

import sources
import tfring

INIT = sources.ROOT / "tfring" / "__init__.py"


def type_checking_names() -> set[str]:
    names = set()
    for node in ast.walk(sources.tree(INIT)):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for statement in node.body:
                assert isinstance(statement, ast.ImportFrom)
                names |= {alias.asname or alias.name for alias in statement.names}
    return names


def test_the_three_lists_of_exports_agree() -> None:
    lazy = {*tfring._MODULE_OF, *tfring._MODULES}
    assert set(tfring.__all__) == lazy == type_checking_names()


def test_every_export_exists_and_dir_lists_it() -> None:
    for name in tfring.__all__:
        getattr(tfring, name)
    assert set(tfring.__all__) <= set(dir(tfring))


@pytest.mark.parametrize("name", sorted(tfring.__all__))
def test_every_export_is_documented(name: str) -> None:
    value = getattr(tfring, name)
    own = type(value).__doc__ if not callable(value) and not hasattr(value, "__path__") else None
    assert (value.__doc__ or own or "").strip(), f"tfring.{name} has no docstring"


@pytest.mark.parametrize("path", sources.library_python(), ids=sources.name)
def test_modules_and_public_definitions_are_documented(path) -> None:
    module = sources.tree(path)
    assert ast.get_docstring(module), "the module has no docstring"
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"line {node.lineno}: {node.name} has no docstring"


def test_setup_cfg_lists_every_package() -> None:
    setup = configparser.ConfigParser()
    setup.read(sources.ROOT / "setup.cfg")
    listed = set(setup["options"]["packages"].split())
    found = {
        sources.module_name(path) for path in sources.library_python() if path.name == "__init__.py"
    }
    assert listed == found
