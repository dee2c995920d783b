"""Dependencies between the directories of C++ sources point one way."""

from __future__ import annotations

import re

import pytest

import sources

ENGINE = "custom_ops/engine"
# What the files of a directory may include from other directories of the engine.
MAY_INCLUDE = {
    "base": set(),
    "rendezvous": {"base"},
    "transport": {"base", "rendezvous"},
    "codec": {"base"},
    "collective": {"base", "codec", "transport"},
    "schedule": {"base", "codec", "collective", "transport"},
    "core": {"base", "codec", "collective", "rendezvous", "schedule", "transport"},
    "c_api": {"base", "codec", "collective", "core", "rendezvous", "schedule", "transport"},
    "tensorflow": {"c_api"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def directory_of(path) -> str:
    """The layer: a directory of the engine, `c_api` (its files), or `tensorflow`."""
    parts = path.relative_to(sources.ROOT / "custom_ops").parts
    return layer_of_name(parts[1]) if parts[0] == "engine" else parts[0]


def layer_of_name(first: str) -> str:
    return "c_api" if first.startswith("c_api") else first


def layer_of_include(include: str, path) -> str | None:
    """None: the included file stands beside `path`."""
    if (path.parent / include).is_file() and "/" not in include:
        return directory_of(path.parent / include)
    first = layer_of_name(include.split("/")[0])
    return first if first in MAY_INCLUDE else None


@pytest.mark.parametrize("path", sources.library_cxx(), ids=sources.name)
def test_includes_point_down(path) -> None:
    layer = directory_of(path)
    assert layer in MAY_INCLUDE, f"{sources.name(path)} is in no known layer"
    for include in INCLUDE.findall(path.read_text()):
        other = layer_of_include(include, path)
        assert other is not None, f'"{include}" is not relative to {ENGINE}'
        if other != layer:
            assert other in MAY_INCLUDE[layer], f'{layer} may not include "{include}"'


@pytest.mark.parametrize("path", sources.library_cxx(), ids=sources.name)
def test_engine_knows_no_tensorflow(path) -> None:
    if directory_of(path) == "tensorflow":
        return
    names = re.findall(r"^\s*#\s*include.*(?:tensorflow|Python\.h)", path.read_text(), re.MULTILINE)
    assert not names, names


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_only_the_transport_layer_names_a_transport(transport: str) -> None:
    for path in sources.library_cxx():
        if directory_of(path) == "transport":
            continue
        for include in INCLUDE.findall(path.read_text()):
            assert not include.startswith(f"transport/{transport}/"), sources.name(path)
