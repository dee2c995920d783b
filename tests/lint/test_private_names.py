"""Private names of Keras and TensorFlow, each in one listed place.

A private name may go away with any release; whoever mends that should find it at once.
"""

from __future__ import annotations

import ast
import re

import sources

# Attributes that begin with an underscore, of objects that are not ours. The reader of
# this list sees what a new Keras or TensorFlow can break.
ALLOWED_ATTRIBUTES: dict[str, set[str]] = {
    "callbacks/average_metrics.py": {"_get_metrics_result_or_logs"},
    "callbacks/model_checkpoint.py": {"_get_file_path", "_save_model", "_set_monitor_op"},
    "callbacks/tensorboard.py": {
        *("_close_writers", "_global_train_batch", "_pop_writer", "_prev_summary_state"),
        *("_train_writer",),
    },
    "tfring/health_checks.py": {"_add_control_inputs"},
    "tfring/keras_hooks.py": {
        *("_current_iterator", "_set_monitor_op"),
        *("_accumulated_gradients", "_get_variable_index", "_iterations", "_trainable_variables"),
    },
}
# Imports below tensorflow.python, keras.src and the like.
ALLOWED_IMPORTS: dict[str, set[str]] = {
    "tfring/keras_hooks.py": {"keras.src.backend.tensorflow.trainer"},
    "tfring/xla.py": {"tensorflow.python.framework", "tensorflow.python.ops"},
}

# Documented by Python itself.
PUBLIC = {"_exit", "_fields_", "_fields"}

PRIVATE_MODULES = re.compile(r"^(tensorflow\.python|tensorflow\.core|keras\.src|keras\._)")


def own_private_names() -> set[str]:
    """Underscore names that the library itself defines: as function, class or attribute."""
    names: set[str] = set()
    for path in sources.library_python():
        for node in ast.walk(sources.tree(path)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
    return names


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def test_private_attributes_are_listed() -> None:
    own = own_private_names()
    found = []
    for path in sources.library_python():
        allowed = ALLOWED_ATTRIBUTES.get(sources.name(path), set())
        for node in ast.walk(sources.tree(path)):
            if not isinstance(node, ast.Attribute) or not is_private(node.attr):
                continue
            if node.attr not in own | allowed | PUBLIC:
                found.append(f"{sources.name(path)}:{node.lineno}: {node.attr}")
    assert not found


def test_private_modules_are_listed() -> None:
    found = []
    for path in sources.library_python():
        allowed = ALLOWED_IMPORTS.get(sources.name(path), set())
        for node in ast.walk(sources.tree(path)):
            modules = []
            if isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            elif isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            for module in modules:
                if PRIVATE_MODULES.match(module) and module not in allowed:
                    found.append(f"{sources.name(path)}:{node.lineno}: {module}")
    assert not found


def test_lists_name_what_exists() -> None:
    for listed in (ALLOWED_ATTRIBUTES, ALLOWED_IMPORTS):
        for name, names in listed.items():
            text = (sources.ROOT / name).read_text()
            unused = {entry for entry in names if entry not in text}
            assert not unused, f"{name} no longer uses {unused}"
