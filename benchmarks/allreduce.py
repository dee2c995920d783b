"""Times allreduce by tfring and by what else is installed, in the same run on the same work.

    python benchmarks/allreduce.py                     # 2 processes
    python benchmarks/allreduce.py --np 4 --sizes 65536 16777216

The first column is the yardstick: every process copies a buffer of that size at the same time,
which no allreduce in shared memory can beat. The others are medians in milliseconds and,
behind them, how many times the yardstick they take. PyTorch's gloo is measured where PyTorch
is installed.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tfring
from tfring import arrays

Run = Callable[[], object]
DEFAULT_SIZES = [4 * 2**10, 64 * 2**10, 2**20, 16 * 2**20, 64 * 2**20]
TIMEOUT_S = 1200


def median_ms(run: Run, seconds: float) -> float:
    """The median time of `run`, repeated for about so long on all ranks alike."""
    run()
    began = time.perf_counter()
    run()
    once = time.perf_counter() - began
    agreed = arrays.allreduce_arrays(
        [np.array([once])], op=tfring.ReduceOp.MAX, name="benchmark/once"
    )[0]
    repeats = int(np.clip(seconds / max(float(agreed[0]), 1e-6), 5, 300))
    times = []
    for _ in range(repeats):
        arrays.barrier(name="benchmark/barrier")
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return 1000 * statistics.median(times)


def memcpy(count: int) -> Run:
    source, target = np.ones(count, np.float32), np.empty(count, np.float32)
    return lambda: np.copyto(target, source)


def tfring_arrays(count: int) -> Run:
    values = np.ones(count, np.float32)
    return lambda: arrays.allreduce_arrays([values], name=f"benchmark/arrays/{count}")


def tfring_op(count: int) -> Run:
    import tensorflow as tf

    values = tf.ones([count])

    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        return tfring.allreduce(x, name=f"benchmark/op/{count}")

    return lambda: step(values).numpy()


def torch_gloo(count: int) -> Run | None:
    try:
        import torch
        import torch.distributed as distributed
    except ImportError:
        return None
    if not distributed.is_initialized():
        distributed.init_process_group(
            "gloo",
            init_method=f"file://{os.environ['BENCHMARK_FILE']}",
            rank=tfring.rank(),
            world_size=tfring.size(),
        )
    values = torch.ones(count)
    return lambda: distributed.all_reduce(values)


CONTENDERS: dict[str, Callable[[int], Run | None]] = {
    "memcpy": memcpy,
    "tfring, NumPy": tfring_arrays,
    "tfring, TensorFlow": tfring_op,
    "torch gloo": torch_gloo,
}


def size_text(size: int) -> str:
    for unit, factor in (("MB", 2**20), ("KB", 2**10)):
        if size >= factor:
            return f"{size / factor:g} {unit}"
    return f"{size} B"


def work(sizes: list[int], seconds: float) -> None:
    """What each rank does; rank 0 prints."""
    tfring.init()
    first = tfring.rank() == 0
    if first:
        print(f"| float32, {tfring.size()} processes | " + " | ".join(CONTENDERS) + " |")
        print("|---" * (1 + len(CONTENDERS)) + "|", flush=True)
    for size in sizes:
        cells = []
        yardstick = 0.0
        for make in CONTENDERS.values():
            run = make(size // 4)
            if run is None:
                cells.append("-")
                continue
            elapsed = median_ms(run, seconds)
            yardstick = yardstick or elapsed
            cells.append(f"{elapsed:.3f} ({elapsed / yardstick:.1f})")
        if first:
            print(f"| {size_text(size)} | " + " | ".join(cells) + " |", flush=True)
    tfring.shutdown()


def describe_machine() -> str:
    import importlib.metadata

    versions = []
    for package in ("tfring", "tensorflow-cpu", "tensorflow", "torch", "numpy"):
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}; " + ", ".join(
        [f"Python {platform.python_version()}", *versions]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--np", type=int, nargs="+", default=[2], help="numbers of processes")
    parser.add_argument("--sizes", type=int, nargs="+", default=DEFAULT_SIZES, help="bytes")
    parser.add_argument("--seconds", type=float, default=1.0, help="per size and contender")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.sizes, options.seconds)
        return 0
    print(describe_machine(), flush=True)
    launcher = Path(sys.executable).with_name("tfringrun")
    arguments = ["--sizes", *map(str, options.sizes), "--seconds", str(options.seconds)]
    for np_ in options.np:
        print(flush=True)
        command = [str(launcher), "-np", str(np_), "--no-prefix", sys.executable]
        with tempfile.TemporaryDirectory() as directory:
            gloo = {"BENCHMARK_FILE": str(Path(directory, "gloo"))}
            subprocess.run(
                [*command, str(Path(__file__).resolve()), "--worker", *arguments],
                env={**os.environ, **gloo, "TF_CPP_MIN_LOG_LEVEL": "2"},
                timeout=TIMEOUT_S,
                check=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
