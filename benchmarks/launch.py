"""How the processes of each engine are started, and which engines can be."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# A process to start and the variables that it gets beyond ours.
Command = tuple[list[str], dict[str, str]]

_TFRINGRUN = "import sys; from tfring.launcher.cli import main; sys.exit(main())"
# One thread a process, as with one process a core.
_QUIET = {
    "OMP_NUM_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "CUDA_VISIBLE_DEVICES": "",
    "KERAS_BACKEND": "tensorflow",
}


def _worker(engine: str, arguments: list[str]) -> list[str]:
    return [sys.executable, "-m", "benchmarks.worker", "--engine", engine, *arguments]


def _environment() -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**_QUIET, "PYTHONPATH": path}


def mpirun() -> str | None:
    """Open MPI's starter: the one beside this interpreter, else the system's."""
    beside = Path(sys.executable).with_name("mpirun")
    return str(beside) if beside.exists() else shutil.which("mpirun")


@dataclass(frozen=True)
class Launch:
    """An engine and how its processes come to be.

    Attributes:
        name: Of the engine, as the worker knows it.
        title: For tables.
        missing: Why it cannot be started here; "" when it can.
        start: Gives the processes to start for a number of ranks.
    """

    name: str
    title: str
    missing: str
    start: Callable[[str, int, list[str], Path], list[Command]]

    def commands(self, size: int, arguments: list[str], directory: Path) -> list[Command]:
        """The processes to start for `size` ranks, whose workers get `arguments`."""
        return self.start(self.name, size, arguments, directory)


def _each_by_itself(name: str, size: int, arguments: list[str], directory: Path) -> list[Command]:
    place = ["--meeting-place", str(directory / f"{name}.meeting")]
    return [
        (
            _worker(name, [*arguments, *place, "--rank", str(rank), "--size", str(size)]),
            _environment(),
        )
        for rank in range(size)
    ]


def _by_tfringrun(name: str, size: int, arguments: list[str], directory: Path) -> list[Command]:
    launcher = [sys.executable, "-c", _TFRINGRUN, "-np", str(size), "--no-prefix"]
    return [([*launcher, *_worker(name, arguments)], _environment())]


def _by_mpirun(name: str, size: int, arguments: list[str], directory: Path) -> list[Command]:
    """With Open MPI's own defaults, except that more ranks than cores are not pinned."""
    launcher = [str(mpirun()), "--oversubscribe", "-np", str(size)]
    if size > len(os.sched_getaffinity(0)):
        launcher += ["--bind-to", "none"]
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return [([*launcher, *_worker(name, arguments)], {**_environment(), **root})]


def _lacks(*modules: str) -> str:
    absent = [name for name in modules if importlib.util.find_spec(name) is None]
    return f"{', '.join(absent)} not installed" if absent else ""


def raw_engines() -> list[Launch]:
    """Those that reduce arrays, without TensorFlow."""
    no_mpi = _lacks("mpi4py") or ("" if mpirun() else "mpirun not found")
    return [
        Launch("memcpy", "memcpy", "", _each_by_itself),
        Launch("tfring", "tfring", "", _by_tfringrun),
        Launch("open_mpi", "Open MPI", no_mpi, _by_mpirun),
        Launch("gloo", "PyTorch gloo", _lacks("torch"), _each_by_itself),
    ]
