"""Allreduce between hosts: tfring against gloo, Open MPI over TCP and the wire itself.

    python -m benchmarks.network                              # everything
    python -m benchmarks.network --hosts 2 --rates 1000 --delays 1000 --sizes 4096

Hosts are network namespaces (see tests/network/hosts.py); it needs root. Rates are in Mbit/s,
0 without limit; delays in microseconds, one way, 0: a bridge of the kernel.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.group import Group
from benchmarks.network_launch import Placement
from benchmarks.raw import line
from benchmarks.rounds import FULL, NORMAL, QUICK, measure
from benchmarks.workloads import ALLREDUCE_BYTES, single
from tests.network.hosts import Hosts, why_no_switch, why_not


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--per-host", type=int, nargs="+", default=[1], help="ranks of a host")
    parser.add_argument("--rates", type=float, nargs="+", default=[1000, 0], help="Mbit/s")
    parser.add_argument("--delays", type=float, nargs="+", default=[0, 50, 1000], help="us")
    parser.add_argument("--sizes", type=int, nargs="+", default=ALLREDUCE_BYTES[:5], help="bytes")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16", "bfloat16"])
    parser.add_argument(
        "--engines", nargs="+", default=["tfring", "gloo", "open_mpi", "plain_tcp"]
    )
    effort = parser.add_mutually_exclusive_group()
    effort.add_argument("--quick", dest="effort", action="store_const", const=QUICK)
    effort.add_argument("--full", dest="effort", action="store_const", const=FULL)
    options = parser.parse_args(arguments)
    if reason := why_not() or (why_no_switch() if any(options.delays) else ""):
        print(f"can't be measured here: {reason}")
        return 1
    for hosts in options.hosts:
        for per_host in options.per_host:
            for rate in options.rates:
                for delay in options.delays:
                    print(f"{hosts} hosts x {per_host}, {rate:g} Mbit/s, {delay:g} us", flush=True)
                    measure_network(options, hosts, per_host, rate, delay)
    return 0


def measure_network(
    options: argparse.Namespace, hosts: int, per_host: int, rate: float, delay: float
) -> None:
    with ExitStack() as stack:
        network = stack.enter_context(Hosts(hosts, rate_mbit=rate, delay_us=delay))
        placement = Placement(network, per_host)
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        groups = {}
        for launch in placement.launches(options.engines):
            if launch.missing:
                print(f"left out: {launch.title}: {launch.missing}")
                continue
            groups[launch.name] = Group(launch, placement.size, directory)
            stack.callback(groups[launch.name].stop)
        for size in options.sizes:
            work = single(size, options.dtype)
            print(line(work, measure(groups, work, options.effort or NORMAL)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
