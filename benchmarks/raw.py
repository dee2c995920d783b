"""Allreduce without TensorFlow: tfring's C API against memcpy, Open MPI and gloo.

python -m benchmarks.raw                        # 2 and 4 processes, all sizes
python -m benchmarks.raw --np 2 --sizes 4096 1048576 --engines tfring open_mpi memcpy
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.group import Group
from benchmarks.launch import Launch, raw_engines
from benchmarks.rounds import FULL, NORMAL, QUICK, Contestant, measure
from benchmarks.timing import Times, ratio
from benchmarks.workloads import (
    ALLREDUCE_BYTES,
    Workload,
    resnet50_gradients,
    single,
    thousand_small,
)


def start(launches: Iterable[Launch], size: int, stack: ExitStack) -> dict[str, Group]:
    """Groups of `size` processes, which `stack` stops."""
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
    groups = {}
    for launch in launches:
        groups[launch.name] = Group(launch, size, directory)
        stack.callback(groups[launch.name].stop)
    return groups


def line(work: Workload, times: dict[str, Times]) -> str:
    """Median and minimum in ms of each engine, and tfring's ratios to the others."""
    cells = [f"{work.name:>20}"]
    for name, one in times.items():
        cells.append(f"{name} {1000 * one.median:9.4f} (min {1000 * one.least:9.4f})")
    if "tfring" in times:
        ratios = [
            f"{name} {ratio(times['tfring'], one):.2f}"
            for name, one in times.items()
            if name != "tfring"
        ]
        cells.append("tfring takes, of " + ", ".join(ratios))
    return " | ".join(cells)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = [launch.name for launch in raw_engines()]
    parser.add_argument("--np", type=int, nargs="+", default=[2, 4], help="numbers of processes")
    parser.add_argument("--sizes", type=int, nargs="*", default=ALLREDUCE_BYTES, help="bytes")
    parser.add_argument("--engines", nargs="+", default=names, choices=names)
    parser.add_argument("--many", action="store_true", help="lists of tensors too")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16", "bfloat16"])
    effort = parser.add_mutually_exclusive_group()
    effort.add_argument("--quick", dest="effort", action="store_const", const=QUICK)
    effort.add_argument("--full", dest="effort", action="store_const", const=FULL)
    options = parser.parse_args()
    launches = []
    for launch in raw_engines():
        if launch.name in options.engines:
            if launch.missing:
                print(f"left out: {launch.title}: {launch.missing}")
            else:
                launches.append(launch)
    works = [single(size, options.dtype) for size in options.sizes]
    if options.many:
        works += [resnet50_gradients(), thousand_small()]
    for size in options.np:
        print(f"{size} processes, ms")
        with ExitStack() as stack:
            groups = start(launches, size, stack)
            for work in works:
                turns = {name: Contestant(group, work) for name, group in groups.items()}
                print(line(work, measure(turns, options.effort or NORMAL)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
