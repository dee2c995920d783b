"""Ranks started by mpirun and torchrun instead of tfringrun: the script stays the same."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.launched import LIMIT_S, PYTHON

SCRIPT = """
import sys
import numpy, tfring
from tfring.arrays import allgather_array
tfring.init()
ranks = allgather_array(numpy.array([tfring.rank()]), name="x").tolist()
place = tfring.rank(), tfring.size(), tfring.local_rank(), tfring.local_size()
place = "place", *place, tfring.cross_rank(), tfring.cross_size(), ranks
# In one piece: mpirun mixes what comes in several.
sys.stdout.write(" ".join(map(str, place)) + "\\n")
sys.stdout.flush()
tfring.shutdown()
"""


def places(command: list[str], env: dict[str, str]) -> list[str]:
    """What the ranks say about themselves, in rank order."""
    # As if no launcher of ours had anything to do with it.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TFRING_")}
    result = subprocess.run(
        command,
        env={**clean, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    return sorted(line[line.index("place") :] for line in lines if "place" in line)


EXPECTED = [f"place {rank} 3 {rank} 3 0 1 [0, 1, 2]" for rank in range(3)]


def test_mpirun() -> None:
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        pytest.skip("needs Open MPI's mpirun (Debian: apt-get install openmpi-bin)")
    command = [mpirun, "--allow-run-as-root", "--oversubscribe", "-np", "3", PYTHON, "-c", SCRIPT]
    assert places(command, {}) == EXPECTED


def test_torchrun(tmp_path: Path) -> None:
    torchrun, env = find_torchrun()
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [*torchrun, "--standalone", "--nproc-per-node=3", "--no-python", PYTHON, str(script)]
    assert places(command, env) == EXPECTED


def find_torchrun() -> tuple[list[str], dict[str, str]]:
    """torchrun of this environment, or of PATH: its workers run this Python anyway."""
    if importlib.util.find_spec("torch") is not None:
        return [sys.executable, "-m", "torch.distributed.run"], {}
    found = shutil.which("torchrun")
    if found is None:
        pytest.skip("needs torchrun on PATH (pip install torch, in an environment of its own)")
    return [found], {}
