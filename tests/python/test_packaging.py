"""From a source distribution to a wheel to a job, as pip would do it."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What git does not track must not be in the copy that is built.
LEFT_OUT = shutil.ignore_patterns(
    ".*", "build", "dist", "lib", "*.egg-info", "__pycache__", "tests", "docs"
)


def run(*command: str, cwd: Path, **environment: str) -> str:
    # CMake and Ninja are beside this interpreter.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    result = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "PATH": path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from an unpacked sdist, with the build tools that are installed here."""
    work = tmp_path_factory.mktemp("packaging")
    shutil.copytree(ROOT, work / "checkout", ignore=LEFT_OUT)
    code = f"from setuptools import build_meta; build_meta.build_sdist({str(work)!r})"
    run(sys.executable, "-c", code, cwd=work / "checkout")
    (sdist,) = work.glob("tfring-*.tar.gz")
    with tarfile.open(sdist) as archive:
        # Not in every Python 3.10 and 3.11; ours is no archive of a stranger.
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(work / "unpacked", **safe)
    (source,) = (work / "unpacked").iterdir()
    options = ("--no-build-isolation", "--no-deps", "--no-index", "-w", str(work))
    run(sys.executable, "-m", "pip", "wheel", *options, ".", cwd=source)
    (built,) = work.glob("tfring-*.whl")
    return built


@pytest.mark.timeout(600)
def test_wheel_is_complete_and_for_every_python(wheel: Path) -> None:
    assert "-py3-none-linux_" in wheel.name
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    expected = {"tfring/py.typed", "tfring/lib/libtfring.so", "tfring/lib/libtfring_tf.so"}
    expected |= {
        f"{package.replace('.', '/')}/__init__.py"
        for package in setup["options"]["packages"].split()
    }
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert expected <= names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"tfring"}


@pytest.mark.timeout(600)
def test_wheel_runs_a_job_without_tensorflow(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    program = "import tfring; tfring.init(); print(tfring.__file__, tfring.size())"
    launch = "import sys; from tfring.launcher.cli import main; sys.exit(main(sys.argv[1:]))"
    command = (sys.executable, "-c", launch, "-np", "2", sys.executable, "-c", program)
    printed = run(*command, cwd=tmp_path, PYTHONPATH=str(site))
    for rank in range(2):
        assert f"[{rank}] {site / 'tfring' / '__init__.py'} 2" in printed
