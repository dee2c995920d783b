"""Builds one wheel and runs tests with it under several TensorFlows and Keras releases.

What is tested is what depends on them: the operations, and all that needs Keras's insides.

    python tests/harness/tf_versions.py                 # all versions
    python tests/harness/tf_versions.py 2.16 2.21       # some
    python tests/harness/tf_versions.py -- -k gradient  # arguments for pytest

Each version gets a virtual environment below build/tf-versions, which later runs reuse.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("2.16", "2.18", "2.20", "2.21")
# The Keras to test along with each, from the oldest that will do to the newest there is.
KERAS = {"2.16": "==3.5.*", "2.18": "==3.8.*", "2.20": "==3.12.*"}
TESTS = (
    "tests/python/test_tf_c_api.py",
    "tests/python/test_op_names.py",
    "tests/python/test_ops_*.py",
    "tests/python/test_process_sets.py",
    "tests/parallel/test_ops_*.py",
    "tests/python/test_keras_hooks.py",
    "tests/parallel/test_optimizer_mixed_precision.py",
    "tests/parallel/test_xla_training.py",
)
REQUIREMENTS = ("pytest>=8", "pytest-timeout>=2.3")
BUILD_LIMIT_S = 600
INSTALL_LIMIT_S = 1200
TEST_LIMIT_S = 1800


def run(command: list[str], limit_s: float, log: Path) -> int:
    """Runs a command with its output in a file; returns its exit status."""
    with log.open("ab") as output:
        output.write(f"$ {' '.join(command)}\n".encode())
        output.flush()
        try:
            result = subprocess.run(
                command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, timeout=limit_s
            )
        except subprocess.TimeoutExpired:
            output.write(f"ended after {limit_s:g} seconds\n".encode())
            return 124
    return result.returncode


def build_wheel(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("*.whl"):
        old.unlink()
    log = directory / "build.log"
    log.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", str(directory), "."]
    if run(command, BUILD_LIMIT_S, log) != 0:
        sys.exit(f"the wheel did not build:\n{log.read_text()}")
    return next(directory.glob("*.whl"))


def test_version(version: str, wheel: Path, directory: Path, arguments: list[str]) -> str:
    """Installs and tests; returns what to say about it, which begins with "ok" if all is."""
    environment = directory / version
    python = environment / "bin" / "python"
    log = directory / f"{version}.log"
    log.unlink(missing_ok=True)
    keras = "keras" + KERAS.get(version, "")
    install = [str(python), "-m", "pip", "install"]
    installed = environment / "installed"  # an interrupted installation lacks this file
    create = [sys.executable, "-m", "venv", "--clear", str(environment)]
    commands = [
        *([] if installed.exists() else [create]),
        [*install, f"tensorflow-cpu=={version}.*", keras, *REQUIREMENTS],
        [*install, str(wheel)],
        [*install, "--no-deps", "--force-reinstall", str(wheel)],
    ]
    for command in commands:
        if run(command, INSTALL_LIMIT_S, log) != 0:
            return f"could not be installed, see {log}"
    installed.touch()
    tests = sorted(str(path.relative_to(ROOT)) for glob in TESTS for path in ROOT.glob(glob))
    # pytest and not `python -m pytest`, which would import tfring from this directory.
    command = [str(environment / "bin" / "pytest"), "-q", "-p", "no:cacheprovider", *tests]
    status = run([*command, *arguments], TEST_LIMIT_S, log)
    last = log.read_text(errors="replace").strip().splitlines()[-1]
    return f"ok: {last}" if status == 0 else f"FAILED, see {log}: {last}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("versions", nargs="*", help=f"default: {' '.join(VERSIONS)}")
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "tf-versions")
    own, arguments = sys.argv[1:], []
    if "--" in own:
        at = own.index("--")
        own, arguments = own[:at], own[at + 1 :]
    options = parser.parse_args(own)
    wheel = build_wheel(options.directory / "wheel")
    failed = False
    for version in options.versions or VERSIONS:
        started = time.monotonic()
        result = test_version(version, wheel, options.directory, arguments)
        print(f"TensorFlow {version}: {result} ({time.monotonic() - started:.0f} s)", flush=True)
        failed |= not result.startswith("ok")
    sys.exit(failed)


if __name__ == "__main__":
    main()
