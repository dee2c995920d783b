"""The one build step that setup.cfg cannot express: CMake builds the native libraries."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent.resolve()
SOURCE = ROOT / "custom_ops"
LIBRARIES = ("libtfring.so", "libtfring_tf.so")


def require_tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise SystemExit(
            f"tfring's build needs {name}, which is not on PATH; `pip install {name}` gives it"
        )
    return path


class BuildNative(build_ext):
    """Builds custom_ops/ with CMake and Ninja into `tfring/lib`.

    The libraries are no Python extensions: ctypes and TensorFlow load them, so that one
    build serves every Python and every TensorFlow.
    """

    def run(self) -> None:
        build_dir = ROOT / "build" / "native" if self.inplace else Path(self.build_temp).resolve()
        lib_dir = self._lib_dir()
        cmake, ninja = require_tool("cmake"), require_tool("ninja")
        configure = [
            cmake,
            *("-S", str(SOURCE)),
            *("-B", str(build_dir)),
            *("-G", "Ninja"),
            "-DCMAKE_BUILD_TYPE=Release",
            "-DTFR_BUILD_TESTS=OFF",
            f"-DTFR_LIBRARY_DIR={lib_dir}",
            # An isolated build's ninja is gone the next time; do not trust the cache.
            f"-DCMAKE_MAKE_PROGRAM={ninja}",
        ]
        build = [cmake, "--build", str(build_dir)]
        if self.parallel:
            build += ["--parallel", str(self.parallel)]
        for command in (configure, build):
            subprocess.run(command, check=True)
        missing = [name for name in LIBRARIES if not (lib_dir / name).is_file()]
        if missing:
            raise SystemExit(f"CMake succeeded, but {lib_dir} lacks {', '.join(missing)}")

    def _lib_dir(self) -> Path:
        base = ROOT if self.inplace else Path(self.build_lib).resolve()
        return base / "tfring" / "lib"

    def get_outputs(self) -> list[str]:
        return [str(self._lib_dir() / name) for name in LIBRARIES]

    def get_output_mapping(self) -> dict[str, str]:
        return {}

    def get_source_files(self) -> list[str]:
        """What an sdist needs beyond the Python packages."""
        suffixes = {".cc", ".h", ".txt", ".cmake", ".map", ".lds"}
        files = [path for path in SOURCE.rglob("*") if path.suffix in suffixes]
        return sorted(str(path.relative_to(ROOT)) for path in files)


class PlatformWheel(bdist_wheel):
    """Tags the wheel for the platform alone: nothing in it depends on the Python version."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(
    ext_modules=[Extension("tfring.lib.native", sources=[])],
    cmdclass={"build_ext": BuildNative, "bdist_wheel": PlatformWheel},
)
