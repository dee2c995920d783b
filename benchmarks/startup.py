"""Times joining and leaving a job, for many processes on this machine.

    python -m benchmarks.startup                      # 2 to 64 processes
    python -m benchmarks.startup --np 16 --repeats 5

The processes load libtfring.so and no TensorFlow. They wait for each other before each of the
steps that are timed, so the time to start an interpreter is not in them, and a step takes as
long as its slowest process:

- init: tfr_init, from a process alone to a member of the job;
- barrier, allreduce: the first of each, with what connections they need. An allreduce of 4 KB
  and one of 1 MB, for which on one host every process needs every other;
- shutdown: tfr_shutdown.

Memory is what a process has of its own after the allreduces, and what it shares with others by
its connections; descriptors are what it holds open then.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

from tfring import native

ROOT = Path(__file__).resolve().parents[1]
SIZES = [2, 4, 8, 16, 32, 64]
STEPS = ["init", "barrier", "allreduce 4 KB", "allreduce 1 MB", "shutdown"]
TIMEOUT_S = 300


class Gate:
    """Where the processes of a job wait for each other, by lines over pipes."""

    def __init__(self) -> None:
        self.report: dict[str, float] = {}

    def wait(self) -> None:
        print("ready", flush=True)
        if not sys.stdin.readline():
            sys.exit("the benchmark has gone")

    def time(self, name: str, step: object, *arguments: object) -> None:
        self.wait()
        began = time.monotonic()
        native.check(step(*arguments))  # type: ignore[operator]
        self.report[name] = time.monotonic() - began


def request(library: ctypes.CDLL, kind: int, name: bytes, count: int) -> tuple[object, object]:
    """A tfr_request over `count` float32 elements, and what must stay alive with it."""
    values = (ctypes.c_float * max(count, 1))()
    dims = (ctypes.c_int64 * 1)(count)
    tensor = native.Tensor(
        ctypes.cast(values, ctypes.c_void_p), ctypes.cast(values, ctypes.c_void_p), dims, 1
    )
    made = native.Request()
    made.struct_size = ctypes.sizeof(native.Request)
    made.name, made.kind, made.dtype = name, kind, 2
    made.prescale = made.postscale = 1.0
    if count > 0:
        made.tensors, made.num_tensors = ctypes.pointer(tensor), 1
    return made, (values, dims, tensor)


def memory_kib(field: str) -> int:
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    return 0


def work(options: str) -> None:
    """One process of a job."""
    library = native.load()
    run = library.tfr_run
    run.restype, run.argtypes = ctypes.c_int, [ctypes.POINTER(native.Request)]
    gate = Gate()
    gate.time("init", library.tfr_init, options.encode())
    steps = [("barrier", 3, 0), ("allreduce 4 KB", 0, 1024), ("allreduce 1 MB", 0, 2**18)]
    for name, kind, count in steps:
        if name == "barrier":
            gate.report["descriptors after init"] = len(os.listdir("/proc/self/fd"))
        made, _alive = request(library, kind, name.encode(), count)
        gate.time(name, run, ctypes.byref(made))
    gate.report["descriptors"] = len(os.listdir("/proc/self/fd"))
    gate.report["private MiB"] = (memory_kib("Private_Dirty") + memory_kib("Private_Clean")) / 1024
    gate.report["shared MiB"] = memory_kib("Pss_Shmem") / 1024
    gate.time("shutdown", library.tfr_shutdown)
    print(json.dumps(gate.report), flush=True)


def start(size: int, hosts: int, port: int, secret: str) -> list[subprocess.Popen[str]]:
    """The processes of a job, block by block on so many pretended hosts."""
    local_size = size // hosts
    processes = []
    for rank in range(size):
        options = {
            "rank": rank,
            "size": size,
            "local_rank": rank % local_size,
            "local_size": local_size,
            "host_id": f"host{rank // local_size}",
            "store": f"127.0.0.1:{port}",
            "secret": secret,
            "listen_address": "127.0.0.1",
            "start_timeout_s": TIMEOUT_S,
        }
        text = "\n".join(f"{key}={value}" for key, value in options.items())
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.startup", "--worker", text],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        )
    return processes


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        sys.exit(f"a process has ended early, with exit code {process.wait(TIMEOUT_S)}")
    return line


def run_job(size: int, hosts: int = 1) -> dict[str, float]:
    """Runs a job through all steps; gives the maximum over its processes of each figure."""
    secret = os.urandom(16).hex()
    with native.StoreServer("127.0.0.1", 0, secret=secret) as server:
        processes = start(size, hosts, server.port, secret)
        # So that nothing lasts longer, whatever happens.
        alarm = threading.Timer(TIMEOUT_S, lambda: [process.kill() for process in processes])
        alarm.daemon = True
        alarm.start()
        try:
            for _ in STEPS:
                for process in processes:
                    read_line(process)
                for process in processes:
                    assert process.stdin is not None
                    process.stdin.write("go\n")
                    process.stdin.flush()
            reports = [json.loads(read_line(process)) for process in processes]
            for process in processes:
                if process.wait(TIMEOUT_S) != 0:
                    sys.exit(f"a process ended with exit code {process.returncode}")
        finally:
            alarm.cancel()
            for process in processes:
                process.kill()
    return {name: max(report[name] for report in reports) for name in reports[0]}


def table(sizes: list[int], hosts: int, repeats: int) -> list[str]:
    """Markdown: a line for each number of processes, medians over the repetitions."""
    names = [*STEPS, "descriptors after init", "descriptors", "private MiB", "shared MiB"]
    lines = [
        "| processes | " + " | ".join(f"{n}, ms" if n in STEPS else n for n in names) + " |",
        "|---" * (1 + len(names)) + "|",
    ]
    for size in sizes:
        runs = [run_job(size, min(hosts, size)) for _ in range(repeats)]
        cells = [str(size)]
        for name in names:
            value = statistics.median(run[name] for run in runs)
            cells.append(f"{1000 * value:.1f}" if name in STEPS else f"{value:.0f}")
        lines.append("| " + " | ".join(cells) + " |")
        print(lines[-1] if len(lines) > 3 else "\n".join(lines), flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--np", type=int, nargs="+", default=SIZES, help="numbers of processes")
    parser.add_argument("--hosts", type=int, default=1, help="hosts to pretend; more: TCP")
    parser.add_argument("--repeats", type=int, default=3, help="jobs for each number")
    parser.add_argument("--output", type=Path, help="a file for the table")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker)
        return
    lines = table(arguments.np, arguments.hosts, arguments.repeats)
    if arguments.output:
        arguments.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
