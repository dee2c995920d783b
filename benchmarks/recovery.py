"""How long training stands still when a worker is killed, and when one joins.

    python -m benchmarks.recovery                    # 2 and 3 workers, and 2 on two hosts
    python -m benchmarks.recovery --hosts 1 --np 4   # another number of them

With two hosts one of them is reached by ssh; both are this machine.

A worker is killed (SIGKILL), again and again. Measured is the time until the others complete
their next step, less what a step takes; and the longest pause between two steps when the
replacement joins. Bar: 0.15 s for the first, 0.5 s for the second.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.launch import ROOT
from benchmarks.provenance import provenance
from benchmarks.report import RESULTS, Report, Table, milliseconds

LIMIT_S = 120.0
WORKER = ["-m", "benchmarks.recovery_worker"]
# Workers and hosts.
SETUPS = [(2, 1), (3, 1), (2, 2)]
PARTS = ("detect", "rendezvous", "recreate", "sync")
Step = dict[str, Any]


class Job:
    """An elastic job whose workers write down their steps.

    Args:
        launcher: Arguments of tfringrun.
        directory: For what they write.
        env: Variables for all.
    """

    def __init__(self, launcher: list[str], directory: Path, env: dict[str, str]) -> None:
        self._directory = directory
        tfringrun = str(Path(sys.executable).with_name("tfringrun"))
        self.log = directory / "log"
        self.process = subprocess.Popen(
            [tfringrun, *launcher, sys.executable, *WORKER, str(directory)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **env},
            stdin=subprocess.DEVNULL,
            stdout=self.log.open("wb"),
            stderr=subprocess.STDOUT,
        )

    def steps(self) -> list[Step]:
        """All so far, in the order of time."""
        lines = [
            line
            for path in self._directory.glob("*.jsonl")
            for line in path.read_text().splitlines(keepends=True)
        ]
        steps = [json.loads(line) for line in lines if line.endswith("\n")]
        return sorted(steps, key=lambda step: step["time"])

    def wait(self, condition: Callable[[list[Step]], bool], what: str) -> list[Step]:
        """Waits until the steps fulfil a condition."""
        deadline = time.monotonic() + LIMIT_S
        while not condition(steps := self.steps()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"not {what}:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.05)
        return steps

    def end(self) -> None:
        """Ends all processes."""
        self.process.terminate()
        self.process.wait(LIMIT_S)


def _latest(steps: list[Step]) -> list[Step]:
    """Those of the newest generation."""
    newest = max((step["generation"] for step in steps), default=0)
    return [step for step in steps if step["generation"] == newest]


def _steady(size: int) -> Callable[[list[Step]], bool]:
    """All of so many workers have taken ten steps together."""
    return lambda steps: len(latest := _latest(steps)) >= 10 * size and latest[-1]["size"] == size


def _step_seconds(steps: list[Step]) -> float:
    times = [step["time"] for step in steps if step["pid"] == steps[-1]["pid"]]
    return statistics.median(b - a for a, b in itertools.pairwise(times))


def measure(job: Job, size: int, kills: int) -> tuple[list[float], list[float], list[Step]]:
    """Kills a worker so many times.

    Returns:
        Seconds beyond a step until the next step; the same for the joining of the replacement;
        and the first step after each kill.
    """
    lost, joined, after = [], [], []
    for number in range(kills):
        before = _latest(job.wait(_steady(size), f"steady with {size} workers"))
        victim = next(s for s in reversed(before) if s["rank"] == number % size)
        step_s = _step_seconds(before)
        killed = time.monotonic()
        os.kill(victim["pid"], signal.SIGKILL)
        generation = victim["generation"]
        steps = job.wait(lambda s, g=generation: s[-1]["generation"] > g, "recovered")
        first = next(s for s in steps if s["generation"] > generation)
        lost.append(first["time"] - killed - step_s)
        after.append(first)
        steps = job.wait(_steady(size), "joined by a replacement")
        joining = _latest(steps)[0]
        own = [s["time"] for s in steps if s["pid"] == first["pid"]]
        begin = next(i for i, t in enumerate(own) if t >= joining["time"] - 0.001)
        joined.append(own[begin] - own[begin - 1] - step_s)
    return lost, joined, after


def report_on(workers: int, hosts: int, kills: int) -> Table:
    """Measures one setup."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="recovery-")))
        launcher, env = ["-np", str(workers), "--min-np", "1", "--cooldown", "0.1"], {}
        if hosts == 2:
            sys.path.insert(0, str(ROOT / "tests"))
            from harness.ssh_server import SshServer

            (directory / "ssh").mkdir()
            server = SshServer(directory / "ssh")
            stack.callback(server.close)
            there = workers // 2
            launcher += ["-H", f"localhost:{workers - there},127.0.0.1:{there}", *server.options]
            env = server.env
        job = Job(launcher, directory, env)
        stack.callback(job.end)
        lost, joined, after = measure(job, workers, kills)
    where = f"{workers} workers on {hosts} host{'s' if hosts > 1 else ''}"
    table = Table(
        f"Beyond a step, {where}, {kills} times",
        ["what", "median, ms", "least, ms", "most, ms"],
        note="Of the parts: as the worker that was first has seen them.",
    )
    rows = {"from SIGKILL to the others' next step": lost, "pause when one joins": joined}
    for part in PARTS:
        rows[f"  {part}"] = [step["parts"].get(part, 0.0) for step in after]
    for name, seconds in rows.items():
        figures = (statistics.median(seconds), min(seconds), max(seconds))
        table.rows.append([name, *(milliseconds(max(0.0, s)) for s in figures)])
    return table


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.recovery", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--np", type=int, default=2, help="workers (default: 2)")
    parser.add_argument("--hosts", type=int, choices=(1, 2), help="(default: all setups)")
    parser.add_argument("--kills", type=int, default=10, help="(default: 10)")
    parser.add_argument("--name", default="latest_recovery", help="of the file with the results")
    options = parser.parse_args()
    setups = SETUPS if options.hosts is None else [(options.np, options.hosts)]
    report = Report("Recovery", provenance())
    for workers, hosts in setups:
        report.tables.append(report_on(workers, hosts, options.kills))
        print(report.tables[-1].markdown(), flush=True)
    print(f"written to {report.write(RESULTS, options.name)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
