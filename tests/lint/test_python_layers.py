"""Dependencies between Python modules point one way."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator

import pytest

import sources

# From the bottom up. A module imports from its own group or from groups above it here.
# Whatever is not listed is an error: decide where it belongs.
GROUPS = [
    ["tfring.errors", "tfring.compatibility", "tfring.reduce_op"],
    ["tfring.foreign_launchers", "tfring.network_interface"],
    ["tfring.config"],
    ["tfring.native"],
    ["tfring.monitoring.timeline"],
    ["tfring.launcher"],
    ["tfring.joining"],
    ["tfring.engine"],
    ["tfring.arrays", "tfring.process_sets"],
    ["tfring.objects"],
    ["tfring.grouping", "tfring.op_inputs", "tfring.op_library", "tfring.op_names"],
    ["tfring.scaling", "tfring.xla"],
    ["tfring.collectives"],
    ["tfring.gradients", "tfring.sparse"],
    ["tfring.ops"],
    ["tfring.bucket_search", "tfring.bucket_size", "tfring.buckets", "tfring.keras_hooks"],
    ["tfring.model_state", "tfring.reduction", "tfring.variables"],
    ["tfring.accumulation"],
    ["tfring.health_checks", "tfring.weighing"],
    ["tfring.reducing_optimizer"],
    ["tfring.gradient_tape", "tfring.moving_averages", "tfring.optimizer", "tfring.seed"],
    ["tfring.autotune"],
    ["tfring.data", "tfring.monitoring"],
    ["tfring.elastic"],
    ["tfring.callbacks"],
]
# All that the launcher may import besides the standard library.
LAUNCHER_MAY_IMPORT = {
    *("tfring.config", "tfring.errors", "tfring.native", "tfring.network_interface"),
    *("tfring.launcher", "tfring.monitoring.timeline", "cloudpickle"),
}


def imports(module: ast.Module) -> Iterator[str]:
    """Full names of imported modules; of `from tfring import x` also tfring.x."""
    type_checking = {
        id(node)
        for branch in ast.walk(module)
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.dump(branch.test)
        for node in ast.walk(branch)
    }
    for node in ast.walk(module):
        if id(node) in type_checking:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: write the full name of the module"
            assert node.module is not None
            if node.module == "tfring":
                yield from (f"tfring.{alias.name}" for alias in node.names)
            else:
                yield node.module


def group_of(module: str) -> int | None:
    for index, group in enumerate(GROUPS):
        if any(module == name or module.startswith(name + ".") for name in group):
            return index
    return None


@pytest.mark.parametrize("path", sources.library_python(), ids=sources.name)
def test_imports_point_down(path) -> None:
    module = sources.module_name(path)
    if module == "tfring":
        return
    own = group_of(module)
    assert own is not None, f"{module} is in no group of {__file__}"
    for imported in imports(sources.tree(path)):
        if not imported.startswith("tfring."):
            continue
        other = group_of(imported)
        assert other is not None, f"{module} imports {imported}, which is in no group"
        assert other <= own, f"{module} imports {imported}, which is above it"


def test_launcher_imports_little() -> None:
    for path in sources.files("tfring/launcher", suffixes=(".py",)):
        for imported in imports(sources.tree(path)):
            root = imported.split(".")[0]
            if root in sys.stdlib_module_names:
                continue
            allowed = any(
                imported == name or imported.startswith(name + ".") for name in LAUNCHER_MAY_IMPORT
            )
            assert allowed, f"{sources.name(path)} imports {imported}"


def test_launcher_does_not_load_tensorflow() -> None:
    code = (
        "import sys, tfring, tfring.launcher.cli, tfring.launcher.run\n"
        "heavy = {'tensorflow', 'keras', 'numpy'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
