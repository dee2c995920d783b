"""Fits the cost model's constants to measurements, and shows what it predicts.

python -m benchmarks.cost_model                    # ten minutes; hosts need root
python -m benchmarks.cost_model --points FILE      # from the data of a run before
python -m benchmarks.cost_model --quick            # does it run at all?

The model is in C++ (custom_ops/engine/collective/cost.cc) and is asked through `tfring_cost`
(benchmarks/cost.cc). docs/cost_model.md explains it.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import charts
from benchmarks.cost_points import Network, Point, measure_points, networks
from benchmarks.fitting import Constants, fit
from benchmarks.group import GroupError
from benchmarks.launch import ROOT
from benchmarks.provenance import provenance
from benchmarks.report import RESULTS, Report, Table, milliseconds, significant
from benchmarks.rounds import QUICK, Effort
from benchmarks.workloads import KB, MB, size_text

TOOL = ROOT / "build" / "cc" / "tests" / "tfring_cost"
EFFORT = Effort(rounds=6, round_s=0.03, limit_s=1.5)
TOOL_LIMIT_S = 120.0

# Where the fit begins: the names are those of `tfring_cost`.
START: Constants = {
    "memory_latency_s": 0.5e-6,
    "memory_seconds_per_frame": 0.2e-6,
    "memory_seconds_per_byte": 0.04e-9,
    "network_latency_s": 10e-6,
    "network_seconds_per_frame": 4e-6,
    "network_seconds_per_byte": 0.15e-9,
    "call_s": 0.5e-6,
    "reduce_seconds_per_byte": 0.03e-9,
    "beyond_cache_share": 3.0,
    "incast_share": 0.1,
    "wake_s": 8e-6,
}
# Predictions are for these.
RANKS = tuple(2**k for k in range(3, 13))
SIZES = (4 * KB, MB, 64 * MB)
TOPOLOGIES = {
    "one rank a host, 1 Gbit/s": Network(1, 1, 1000),
    "one rank a host, 25 Gbit/s": Network(1, 1, 25000),
    "8 ranks a host, 25 Gbit/s": Network(1, 8, 25000),
}

Ask = Callable[[Mapping[str, float], Sequence[str]], list[dict[str, Any]]]


def asking(tool: Path) -> Ask:
    """The C++ model as a function of constants and queries; `simulate` is 0 or 1."""

    def ask(constants: Mapping[str, float], queries: Sequence[str]) -> list[dict[str, Any]]:
        arguments = [f"{name}={value:.9g}" for name, value in constants.items()]
        result = subprocess.run(
            [str(tool), *arguments],
            input="\n".join(queries) + "\n",
            capture_output=True,
            text=True,
            timeout=TOOL_LIMIT_S,
            check=True,
        )
        return [json.loads(line) for line in result.stdout.splitlines()]

    return ask


def fitted(ask: Ask, points: Sequence[Point]) -> Constants:
    """The constants that suit the points best."""
    queries = [point.network.query(point.bytes) for point in points]

    def predict(constants: Mapping[str, float]) -> list[float]:
        answers = ask(constants, queries)
        return [
            answer["estimates"][point.algorithm]
            for point, answer in zip(points, answers, strict=True)
        ]

    return fit(predict, [point.seconds for point in points], START)


def compare(ask: Ask, constants: Constants, points: Sequence[Point]) -> tuple[Table, Table]:
    """Every point beside its prediction, and how far off those are by network and algorithm."""
    answers = ask(constants, [point.network.query(point.bytes) for point in points])
    each = Table(
        "Predicted and measured",
        ["allreduce", "algorithm", "predicted, ms", "measured, ms", "error"],
    )
    errors: dict[str, dict[str, list[float]]] = {}
    for point, answer in zip(points, answers, strict=True):
        predicted = answer["estimates"][point.algorithm]
        row = [milliseconds(predicted), milliseconds(point.seconds)]
        name = f"{point.network}: {size_text(point.bytes)}"
        each.rows.append([name, point.algorithm, *row, f"{predicted / point.seconds - 1:+.0%}"])
        factor = abs(math.log(predicted / point.seconds))
        errors.setdefault(str(point.network), {}).setdefault(point.algorithm, []).append(factor)
    summary = Table(
        "Errors",
        ["network", "algorithm", "points", "median factor", "greatest factor"],
        note="Factors between prediction and measurement, whichever is greater; 1: none.",
    )
    for network, algorithms in errors.items():
        for algorithm, factors in algorithms.items():
            of = [math.exp(statistics.median(factors)), math.exp(max(factors))]
            summary.rows.append(
                [network, algorithm, str(len(factors)), *(f"{factor:.2f}" for factor in of)]
            )
    return each, summary


def choices(ask: Ask, constants: Constants, points: Sequence[Point]) -> Table:
    """What following the model costs against the best of the measured algorithms."""
    table = Table(
        "Choices",
        ["allreduce", "chosen", "fastest measured", "chosen / fastest"],
        note="By the constants fitted here.",
    )
    measured: dict[tuple[Network, int], dict[str, float]] = {}
    for point in points:
        measured.setdefault((point.network, point.bytes), {})[point.algorithm] = point.seconds
    answers = ask(constants, [network.query(size) for network, size in measured])
    for ((network, size), times), answer in zip(measured.items(), answers, strict=True):
        best = min(times, key=times.__getitem__)
        ratio = times[answer["chosen"]] / times[best]
        name = f"{network}: {size_text(size)}"
        table.rows.append([name, answer["chosen"], best, f"{ratio:.2f}"])
    return table


def predictions(ask: Ask, constants: Constants) -> tuple[list[Table], dict[str, dict[str, Any]]]:
    """Tables, and for each size the panels of a chart: lines by algorithm."""
    tables: list[Table] = []
    panels: dict[str, dict[str, Any]] = {size_text(size): {} for size in SIZES}
    for title, shape in TOPOLOGIES.items():
        for size in SIZES:
            hosts = [ranks // shape.per_host for ranks in RANKS]
            queries = [
                Network(count, shape.per_host, shape.rate_mbit).query(size) for count in hosts
            ]
            answers = ask(constants, queries)
            names = list(dict.fromkeys(n for answer in answers for n in answer["estimates"]))
            table = Table(f"{size_text(size)}, {title}", ["ranks", *names, "chosen"], note="In ms.")
            lines: dict[str, list[tuple[float, float]]] = {}
            for ranks, answer in zip(RANKS, answers, strict=True):
                times = answer["estimates"]
                cells = [milliseconds(times[n]) if n in times else "-" for n in names]
                table.rows.append([str(ranks), *cells, answer["chosen"]])
                for name, seconds in times.items():
                    lines.setdefault(name, []).append((ranks, seconds))
            panels[size_text(size)][title] = lines
            tables.append(table)
    return tables, panels


def report_on(ask: Ask, points: Sequence[Point], output: Path, name: str) -> Report:
    """Fits, compares and predicts; draws the charts."""
    constants = fitted(ask, points)
    report = Report("Cost model", provenance())
    table = Table("Constants", ["name", "value"], [[n, f"{v:.3g}"] for n, v in constants.items()])
    tables, panels = predictions(ask, constants)
    each, summary = compare(ask, constants, points)
    report.tables = [table, summary, choices(ask, constants, points), *tables, each]
    report.measurements = [asdict(point) for point in points]
    for size, by_topology in panels.items():
        file = f"{name}-{size.replace(' ', '')}.png"
        charts.times_by_ranks(output / file, f"Allreduce of {size}, predicted", by_topology)
        report.charts[file] = f"{size}: predicted time against ranks"
    file = f"{name}-measured.png"
    charts.predicted_and_measured(output / file, scatter(ask, constants, points))
    report.charts[file] = "Predicted against measured"
    return report


def scatter(
    ask: Ask, constants: Constants, points: Sequence[Point]
) -> dict[str, list[tuple[float, float]]]:
    """For a chart: by algorithm, measured and predicted seconds."""
    answers = ask(constants, [point.network.query(point.bytes) for point in points])
    found: dict[str, list[tuple[float, float]]] = {}
    for point, answer in zip(points, answers, strict=True):
        pair = (point.seconds, answer["estimates"][point.algorithm])
        found.setdefault(point.algorithm, []).append(pair)
    return found


def read_points(path: Path) -> list[Point]:
    """The measurements of a report's JSON."""
    data = json.loads(path.read_text(encoding="utf-8"))
    return [Point(**{**one, "network": Network(**one["network"])}) for one in data["measurements"]]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cost_model", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--tool", type=Path, default=TOOL, help="the program tfring_cost")
    parser.add_argument("--points", type=Path, help="a report's JSON, instead of measuring")
    parser.add_argument("--quick", action="store_true", help="few points")
    parser.add_argument("--output", type=Path, default=RESULTS, help="directory of the results")
    parser.add_argument("--name", default="latest_cost_model", help="of the files there")
    options = parser.parse_args()
    if not options.tool.exists():
        print(f"no program {options.tool}: make bench-cost builds it", file=sys.stderr)
        return 1
    if options.points:
        points = read_points(options.points)
    else:
        effort = QUICK if options.quick else EFFORT
        try:
            points = [
                point
                for network in networks(options.quick)
                for point in measure_points(network, effort, options.quick)
            ]
        except GroupError as error:
            print(f"benchmark failed: {error}", file=sys.stderr)
            return 1
    report = report_on(asking(options.tool), points, options.output, options.name)
    page = report.write(options.output, options.name)
    print("\n".join(one.markdown() for one in report.tables[:3]))
    within = [row for row in report.tables[1].rows if float(row[3]) <= 1.5]
    share = significant(len(within) / len(report.tables[1].rows), 2)
    print(f"median factor within 1.5 for {share} of the lines; written to {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
