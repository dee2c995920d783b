"""Measures tfring and its peers on the same work in the same run: docs/benchmarks.md.

python -m benchmarks                      # a few minutes
python -m benchmarks --full               # more repetitions, every size
python -m benchmarks --sections raw --np 2 --quick
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import launch, presentation, sections, targets
from benchmarks.findings import Findings
from benchmarks.group import GroupError
from benchmarks.provenance import provenance
from benchmarks.report import RESULTS, Report
from benchmarks.rounds import FULL, NORMAL, QUICK
from benchmarks.sections import Plan
from benchmarks.workloads import ALLREDUCE_BYTES, KB, MB

SECTIONS = {
    "raw": sections.raw,
    "ops": sections.ops,
    "half": sections.half,
    "processor": sections.processor_time,
    "training": sections.training,
}


def plan_of(options: argparse.Namespace) -> Plan:
    """What the command line asks for."""
    sizes, only = tuple(options.np), tuple(options.engines)
    shared = {"only": only, "horovod_python": options.horovod}
    if options.quick:
        steps = (("cnn", 2),)
        return Plan(
            sizes, (4 * KB, MB), QUICK, False, **shared, training_rounds=2, training_steps=steps
        )
    if options.full:
        steps = (("cnn", 20), ("resnet50", 4))
        return Plan(
            sizes, ALLREDUCE_BYTES, FULL, **shared, training_rounds=15, training_steps=steps
        )
    return Plan(sizes, ALLREDUCE_BYTES, NORMAL, **shared)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--np", type=int, nargs="+", default=[2, 4], help="numbers of processes")
    parser.add_argument("--sections", nargs="+", default=list(SECTIONS), choices=list(SECTIONS))
    parser.add_argument(
        "--engines", nargs="*", default=[], help="only these, such as tfring memcpy open_mpi"
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="seconds: does it run at all?")
    length.add_argument("--full", action="store_true", help="more repetitions")
    parser.add_argument("--horovod", metavar="PYTHON", help="interpreter that has Horovod")
    parser.add_argument("--output", type=Path, default=RESULTS, help="directory of the results")
    parser.add_argument("--name", default="latest", help="of the files there")
    parser.add_argument(
        "--check-targets", action="store_true", help="fail when a target has been missed"
    )
    options = parser.parse_args()
    known = {one.name for one in launch.all_engines(options.horovod)}
    unknown = [name for name in options.engines if name not in known]
    if unknown:
        parser.error(
            f"unknown engine {', '.join(unknown)}: expected some of {', '.join(sorted(known))}"
        )
    return options


def main() -> int:
    options = arguments()
    plan, findings = plan_of(options), Findings()
    try:
        for name in options.sections:
            SECTIONS[name](plan, findings)
    except (GroupError, RuntimeError) as error:
        print(f"benchmark failed: {error}", file=sys.stderr)
        return 1
    if not findings.times and not findings.figures:
        print(f"nothing could be measured: {findings.left_out}", file=sys.stderr)
        return 1
    report = Report("Benchmarks", provenance(peers=launch.peer_versions(options.horovod)))
    found = targets.results(findings, plan.sizes)
    report.tables.append(targets.table(found))
    presentation.fill(report, findings, options.output, options.name)
    page = report.write(options.output, options.name)
    print("\n".join(table.markdown() for table in report.tables))
    print(f"written to {page}, with charts and data beside it")
    missed = [one for one in found if one.met is False]
    return 1 if options.check_targets and missed else 0


if __name__ == "__main__":
    sys.exit(main())
