"""How the processes of each engine are started, and which engines can be."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tfring.launcher.cores import usable_cores
from tfring.launcher.environment import thread_variables

ROOT = Path(__file__).resolve().parents[1]

# A process to start and the variables that it gets beyond ours.
Command = tuple[list[str], dict[str, str]]

_TFRINGRUN = "import sys; from tfring.launcher.cli import main; sys.exit(main())"
_QUIET = {
    "OMP_NUM_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "",
    "KERAS_BACKEND": "tensorflow",
}
# For training: as many threads as cores in all, so that processes don't slow each other down.
ONE_THREAD = {"TF_NUM_INTEROP_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1"}


@dataclass(frozen=True)
class Launch:
    """An engine and how its processes come to be.

    Attributes:
        name: Of the engine.
        title: For tables.
        engine: "module:class" below `benchmarks.engines`.
        start: Gives the processes to start for a number of ranks.
        missing: Why it cannot be started here; "" when it can.
        variables: For its processes.
        python: Their interpreter.
    """

    name: str
    title: str
    engine: str
    start: Callable[[Launch, int, list[str], Path], list[Command]]
    missing: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable

    def commands(self, size: int, arguments: list[str], directory: Path) -> list[Command]:
        """The processes to start for `size` ranks, whose workers get `arguments`."""
        return self.start(self, size, arguments, directory)

    def worker(self, arguments: list[str]) -> list[str]:
        """The command of one rank."""
        return [self.python, "-m", "benchmarks.worker", "--engine", self.engine, *arguments]

    def environment(self) -> dict[str, str]:
        """What every process of it gets."""
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        return {**_QUIET, "PYTHONPATH": path, **self.variables}


def mpirun(python: str = sys.executable) -> str | None:
    """Open MPI's starter: the one beside this interpreter, else the system's."""
    beside = Path(python).with_name("mpirun")
    return str(beside) if beside.exists() else shutil.which("mpirun")


def by_itself(launch: Launch, size: int, arguments: list[str], directory: Path) -> list[Command]:
    """Processes without a launcher, which are told their ranks."""
    place = ["--meeting-place", str(directory / f"{launch.name}.meeting"), "--size", str(size)]
    return [
        (launch.worker([*arguments, *place, "--rank", str(rank)]), launch.environment())
        for rank in range(size)
    ]


def by_itself_with_its_share(
    launch: Launch, size: int, arguments: list[str], directory: Path
) -> list[Command]:
    """With as many threads as tfringrun would give it."""
    threads = thread_variables(usable_cores(), size, {})
    commands = by_itself(launch, size, arguments, directory)
    return [(command, {**environment, **threads}) for command, environment in commands]


def by_tfringrun(launch: Launch, size: int, arguments: list[str], directory: Path) -> list[Command]:
    """Without pinning: no other engine's processes are, beyond what is that engine's default."""
    launcher = [launch.python, "-c", _TFRINGRUN, "-np", str(size), "--no-prefix"]
    return [([*launcher, *launch.worker(arguments)], launch.environment())]


def by_mpirun(launch: Launch, size: int, arguments: list[str], directory: Path) -> list[Command]:
    """With Open MPI's own defaults, except that more ranks than cores are not pinned."""
    launcher = [str(mpirun(launch.python)), "--oversubscribe", "-np", str(size)]
    if size > len(os.sched_getaffinity(0)):
        launcher += ["--bind-to", "none"]
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return [([*launcher, *launch.worker(arguments)], {**launch.environment(), **root})]


def by_horovodrun(
    launch: Launch, size: int, arguments: list[str], directory: Path
) -> list[Command]:
    """With Horovod's gloo as controller and for the data."""
    starter = str(Path(launch.python).with_name("horovodrun"))
    launcher = [launch.python, starter, "--gloo", "-np", str(size)]
    return [([*launcher, *launch.worker(arguments)], launch.environment())]


def by_tf_config(launch: Launch, size: int, arguments: list[str], directory: Path) -> list[Command]:
    """A process a worker, with TF_CONFIG and free ports."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(size)]
    workers = [f"127.0.0.1:{probe.getsockname()[1]}" for probe in probes]
    for probe in probes:
        probe.close()
    commands = []
    for rank, (command, environment) in enumerate(by_itself(launch, size, arguments, directory)):
        cluster = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}
        commands.append((command, {**environment, "TF_CONFIG": json.dumps(cluster)}))
    return commands


def _lacks(*modules: str) -> str:
    absent = [name for name in modules if importlib.util.find_spec(name) is None]
    return f"{', '.join(absent)} not installed" if absent else ""


def raw_engines() -> list[Launch]:
    """Those that reduce arrays, without TensorFlow."""
    no_mpi = _lacks("mpi4py") or ("" if mpirun() else "mpirun not found")
    return [
        Launch("memcpy", "memcpy", "memcpy:Memcpy", by_itself),
        Launch("tfring", "tfring", "tfring_raw:TfringRaw", by_tfringrun),
        Launch("open_mpi", "Open MPI", "open_mpi:OpenMpi", by_mpirun, no_mpi),
        Launch("gloo", "PyTorch gloo", "gloo:Gloo", by_itself, _lacks("torch")),
    ]


def op_engines(horovod_python: str | None = None) -> list[Launch]:
    """Those that reduce tensors inside a `tf.function`, and tfring without it for comparison."""
    no_tf, module = _lacks("tensorflow"), "tensorflow_engine"
    engines = [
        Launch(
            "no_reduction", "no reduction", f"{module}:NoReduction", by_itself_with_its_share, no_tf
        ),
        Launch("tfring", "tfring raw", "tfring_raw:TfringRaw", by_tfringrun),
        Launch("tfring_op", "tfring op", f"{module}:TfringOp", by_tfringrun, no_tf),
        Launch(
            *("mwms", "MultiWorkerMirrored", f"{module}:MultiWorkerMirrored", by_tf_config, no_tf)
        ),
    ]
    absent = horovod_missing(horovod_python)
    for name, title, start, operations in (
        ("horovod_mpi", "Horovod (MPI)", by_mpirun, "MPI"),
        ("horovod_gloo", "Horovod (gloo)", by_horovodrun, "GLOO"),
    ):
        variables = {"HOROVOD_CPU_OPERATIONS": operations, "HOROVOD_LOG_LEVEL": "error"}
        python = horovod_python or sys.executable
        engines.append(Launch(name, title, f"{module}:HorovodOp", start, absent, variables, python))
    return engines


def horovod_missing(python: str | None) -> str:
    """Why Horovod cannot be measured; "" when it can."""
    if python is None:
        return "no interpreter with Horovod given: make bench-horovod"
    command = [python, "-c", "import horovod.tensorflow"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except OSError as error:
        return str(error)
    return "" if result.returncode == 0 else (result.stderr.strip().splitlines() or ["?"])[-1]


def training_engines() -> list[Launch]:
    """The same model by processes that know nothing of each other, and by tfring."""
    no_tf = _lacks("tensorflow", "keras")
    return [
        Launch("alone", "independent", "training:Training", by_itself, no_tf, ONE_THREAD),
        Launch("tfring", "tfring", "training:Training", by_tfringrun, no_tf, ONE_THREAD),
    ]


def all_engines(horovod_python: str | None = None) -> list[Launch]:
    """Of all sections; one that takes part in several appears as often."""
    return [*raw_engines(), *op_engines(horovod_python), *training_engines()]


def peer_versions(horovod_python: str | None) -> str:
    """Of what is not a Python package of this interpreter: Open MPI, Horovod."""
    found = []
    starter = mpirun()
    if starter:
        result = subprocess.run(
            [starter, "--version"], capture_output=True, text=True, timeout=60, check=False
        )
        found.append((result.stdout.strip().splitlines() or ["Open MPI of unknown version"])[0])
    if not horovod_missing(horovod_python):
        script = (
            "import horovod, tensorflow; "
            "print(f'Horovod {horovod.__version__} with TensorFlow {tensorflow.__version__}')"
        )
        result = subprocess.run(
            [str(horovod_python), "-c", script],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        found.append(result.stdout.strip())
    return ", ".join(found) or "none"
