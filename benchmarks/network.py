"""Allreduce between hosts: tfring against gloo, Open MPI over TCP and the wire itself.

python -m benchmarks.network                       # half an hour
python -m benchmarks.network --hosts 2 --rates 1000 --delays 1000 --sizes 4096 --quick

Hosts are network namespaces (tests/network/hosts.py); it needs root. Rates are in Mbit/s, 0:
without limit. Delays are in microseconds, one way; 0: the hosts are joined by a bridge of the
kernel, else by a switch in user space.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import charts
from benchmarks.group import Group, GroupError
from benchmarks.network_launch import Loopback, Placement
from benchmarks.provenance import provenance
from benchmarks.report import RESULTS, Report, Table, milliseconds, significant
from benchmarks.rounds import FULL, NORMAL, QUICK, Contestant, Effort, measure
from benchmarks.sections import say
from benchmarks.timing import Times, ratio
from benchmarks.workloads import ALLREDUCE_BYTES, single
from tests.network.hosts import Hosts, why_no_switch, why_not

ENGINES = ("tfring", "gloo", "open_mpi", "plain_tcp")
_HOW = (
    "Median (minimum) in milliseconds. Plain TCP: one stream from each rank to the next carries "
    "what an allreduce must send, 2 (n - 1) / n times the buffer, and nothing is done with it. "
    "Columns with / are ratios of times, medians over rounds."
)


@dataclass(frozen=True)
class Setting:
    """A network, and how many ranks are on each of its hosts."""

    hosts: int
    per_host: int
    rate: float
    delay: float
    loopback: bool = False

    def __str__(self) -> str:
        if self.loopback:
            return f"{self.hosts} hosts x {self.per_host} in name, over loopback"
        rate = f"{self.rate:g} Mbit/s" if self.rate else "no limit"
        delay = f"{self.delay:g} us" if self.delay else "bridge"
        return f"{self.hosts} hosts x {self.per_host}, {rate}, {delay}"


@contextmanager
def running(setting: Setting, engines: Sequence[str]) -> Iterator[dict[str, Group]]:
    """The groups of these engines on such hosts, by name; those missing are named."""
    groups: dict[str, Group] = {}
    made = (
        Loopback(setting.hosts)
        if setting.loopback
        else Hosts(setting.hosts, rate_mbit=setting.rate, delay_us=setting.delay)
    )
    with (
        made as hosts,
        tempfile.TemporaryDirectory(prefix="bench-") as directory,
    ):
        placement = Placement(hosts, setting.per_host)
        try:
            for launch in placement.launches(list(engines)):
                if launch.missing:
                    say(f"left out: {launch.title}: {launch.missing}")
                else:
                    groups[launch.name] = Group(launch, placement.size, Path(directory))
            yield groups
        finally:
            for group in groups.values():
                group.stop()


def measure_setting(
    setting: Setting, engines: Sequence[str], sizes: Sequence[int], dtype: str, effort: Effort
) -> dict[str, dict[str, Times]]:
    """Times by the name of the work and the engine."""
    found = {}
    with running(setting, engines) as groups:
        for size in sizes:
            work = single(size, dtype)
            turns = {name: Contestant(group, work) for name, group in groups.items()}
            found[work.name] = measure(turns, effort)
            cells = [f"{name} {milliseconds(t.median)}" for name, t in found[work.name].items()]
            say(f"{setting}: {work.name}: {', '.join(cells)} ms")
    return found


def table(setting: Setting, found: dict[str, dict[str, Times]]) -> Table:
    """One row a size."""
    names = list(next(iter(found.values())))
    others = names[1:]
    columns = ["allreduce", *names, *(f"{name} / {names[0]}" for name in others)]
    rows = []
    for work, times in found.items():
        cells = [f"{milliseconds(t.median)} ({milliseconds(t.least)})" for t in times.values()]
        own = times[names[0]]
        ratios = [significant(ratio(times[name], own)) for name in others]
        rows.append([work, *cells, *ratios])
    return Table(str(setting), columns, list(rows), _HOW)


def records(setting: Setting, found: dict[str, dict[str, Times]]) -> list[dict[str, object]]:
    """For the report's data."""
    return [
        {**vars(setting), "work": work, "engine": name, "median_s": t.median, "min_s": t.least}
        for work, times in found.items()
        for name, t in times.items()
    ]


def lines(
    found: dict[str, dict[str, Times]], sizes: Sequence[int]
) -> dict[str, list[tuple[float, float]]]:
    """For a chart: by engine, the median at each size."""
    by_engine: dict[str, list[tuple[float, float]]] = {}
    for size, times in zip(sizes, found.values(), strict=True):
        for name, one in times.items():
            by_engine.setdefault(name, []).append((size, one.median))
    return by_engine


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.network", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--hosts", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--per-host", type=int, nargs="+", default=[1], help="ranks of a host")
    parser.add_argument("--rates", type=float, nargs="+", default=[1000, 0], help="Mbit/s")
    parser.add_argument("--delays", type=float, nargs="+", default=[0, 50, 1000], help="us")
    parser.add_argument("--sizes", type=int, nargs="+", default=ALLREDUCE_BYTES[:5], help="bytes")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16", "bfloat16"])
    parser.add_argument(
        "--engines",
        nargs="+",
        default=ENGINES,
        help="LABEL=FOLDER: tfring with the libraries of that folder",
    )
    parser.add_argument("--output", type=Path, default=RESULTS, help="directory of the results")
    parser.add_argument("--name", default="network", help="of the files there")
    parser.add_argument(
        "--loopback", action="store_true", help="over the loopback device, without hosts"
    )
    effort = parser.add_mutually_exclusive_group()
    effort.add_argument("--quick", dest="effort", action="store_const", const=QUICK)
    effort.add_argument("--full", dest="effort", action="store_const", const=FULL)
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    options = arguments(given)
    if options.loopback:
        options.rates, options.delays = [0], [0]
    elif reason := why_not() or (why_no_switch() if any(options.delays) else ""):
        print(f"can't be measured here: {reason}", file=sys.stderr)
        return 1
    report = Report("Between hosts", provenance())
    panels = {}
    effort = options.effort or NORMAL
    for values in itertools.product(
        *(options.hosts, options.per_host, options.rates, options.delays)
    ):
        setting = Setting(*values, options.loopback)
        try:
            found = measure_setting(setting, options.engines, options.sizes, options.dtype, effort)
        except GroupError as error:
            print(f"benchmark failed: {setting}: {error}", file=sys.stderr)
            return 1
        report.tables.append(table(setting, found))
        report.measurements += records(setting, found)
        panels[str(setting)] = lines(found, options.sizes)
    for number, (title, panel) in enumerate(panels.items()):
        file = f"{options.name}-{number}.png"
        charts.times_by_size(options.output / file, "Allreduce between hosts", {title: panel})
        report.charts[file] = title
    page = report.write(options.output, options.name)
    print("\n".join(one.markdown() for one in report.tables))
    print(f"written to {page}, with charts and data beside it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
