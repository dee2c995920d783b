"""The parts of a run: each starts its groups, lets them take turns and notes the times."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import launch
from benchmarks.findings import Findings
from benchmarks.group import Group, GroupError
from benchmarks.launch import Launch
from benchmarks.rounds import Contestant, Effort, measure
from benchmarks.timing import Times, rotated
from benchmarks.workloads import MB, Workload, resnet50_gradients, single, thousand_small

RAW, OPS, HALF, TRAINING, IDLE, LATE = "raw", "ops", "half", "training", "idle", "late"
# Latency, which smaller ones are made of, is the same for all data types.
HALF_BYTES = (MB, 16 * MB, 64 * MB, 256 * MB)
# How long idle groups are watched, and how late the last rank comes.
WATCHED_S, LATE_S = 5.0, 1.0
# Memory that an engine takes at most, in multiples of the tensors; and the engines that take
# part whatever there is: the yardstick, tfring, and its op.
COPIES_OF_TENSORS, LEAST_GROUPS = 4, 3


@dataclass(frozen=True)
class Plan:
    """What to run.

    Attributes:
        sizes: Numbers of processes.
        bytes: Of the allreduces.
        effort: Time for each workload.
        lists: Whether to reduce lists of tensors too.
        only: Engines to start; empty: all.
        horovod_python: An interpreter that has Horovod.
        training_rounds: Turns of each group in training.
        training_steps: Steps in a turn, by model.
    """

    sizes: tuple[int, ...]
    bytes: tuple[int, ...]
    effort: Effort
    lists: bool = True
    only: tuple[str, ...] = ()
    horovod_python: str | None = None
    training_rounds: int = 8
    training_steps: tuple[tuple[str, int], ...] = (("cnn", 8), ("resnet50", 2))


def say(text: str) -> None:
    """Progress, for the person who waits."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def running(launches: Iterable[Launch], size: int) -> Iterator[dict[str, Group]]:
    """Groups of `size` processes each, by name."""
    groups: dict[str, Group] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        try:
            for one in launches:
                groups[one.name] = Group(one, size, Path(directory))
            yield groups
        finally:
            for group in groups.values():
                group.stop()


def _available(launches: list[Launch], plan: Plan, findings: Findings) -> list[Launch]:
    """Those that can be started; the others are noted with the reason."""
    wanted = [one for one in launches if not plan.only or one.name in plan.only]
    findings.left_out.update({one.title: one.missing for one in wanted if one.missing})
    return [one for one in wanted if not one.missing]


def _works(plan: Plan) -> list[Workload]:
    """Smaller ones first: memory may run out."""
    lists = [resnet50_gradients(), thousand_small()] if plan.lists else []
    return sorted([*map(single, plan.bytes), *lists], key=lambda work: work.bytes)


def _available_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1])


def _make_room(groups: dict[str, Group], work: Workload, size: int, findings: Findings) -> None:
    """Stops groups, the last ones first, until all others can hold the work's tensors."""
    each = COPIES_OF_TENSORS * work.bytes * size
    while len(groups) > LEAST_GROUPS and len(groups) * each > _available_bytes():
        name, group = groups.popitem()
        group.stop()
        findings.left_out[f"{name}: from {work.name}, {size} processes on"] = "not enough memory"


def _take_turns(
    groups: dict[str, Group], work: Workload, size: int, plan: Plan, findings: Findings
) -> dict[str, Times]:
    """Measures all groups; a peer's that fails is left out from then on.

    Raises:
        GroupError: tfring itself failed.
    """
    _make_room(groups, work, size, findings)
    while True:
        turns = {name: Contestant(group, work) for name, group in groups.items()}
        try:
            return measure(turns, plan.effort)
        except GroupError as error:
            if error.name.startswith("tfring"):
                raise
            where = f"{error.name}: from {work.name}, {size} processes on"
            findings.left_out[where] = str(error).splitlines()[0]
            groups.pop(error.name).stop()


def _compare(section: str, launches: list[Launch], plan: Plan, findings: Findings) -> None:
    for size in plan.sizes:
        with running(_available(launches, plan, findings), size) as groups:
            for work in _works(plan):
                say(f"{section}, {size} processes: {work.name}")
                findings.times[section, size, work.name] = _take_turns(
                    groups, work, size, plan, findings
                )


def raw(plan: Plan, findings: Findings) -> None:
    """Allreduce of arrays in place, without TensorFlow."""
    _compare(RAW, launch.raw_engines(), plan, findings)


def ops(plan: Plan, findings: Findings) -> None:
    """Allreduce as a TensorFlow op."""
    _compare(OPS, launch.op_engines(plan.horovod_python), plan, findings)


def half(plan: Plan, findings: Findings) -> None:
    """tfring's float16 and bfloat16 against its float32."""
    tfring = [one for one in launch.raw_engines() if one.name == "tfring"]
    for size in plan.sizes:
        with running(tfring, size) as groups:
            for count in [count for count in plan.bytes if count in HALF_BYTES]:
                work = single(count)
                say(f"{HALF}, {size} processes: {work.name}")
                turns = {
                    dtype: Contestant(groups["tfring"], single(count, dtype))
                    for dtype in ("float32", "float16", "bfloat16")
                }
                findings.times[HALF, size, work.name] = measure(turns, plan.effort)


def processor_time(plan: Plan, findings: Findings) -> None:
    """Processor time of engines with nothing to do, and of ranks that wait for a late one."""
    for size in plan.sizes:
        engines = [one for one in launch.raw_engines() if one.name != "memcpy"]
        with running(_available(engines, plan, findings), size) as groups:
            say(f"processor time, {size} processes")
            before = {name: group.command("cpu_time") for name, group in groups.items()}
            time.sleep(WATCHED_S)
            for name, group in groups.items():
                used = zip(before[name], group.command("cpu_time"), strict=True)
                share = max(after - start for start, after in used) / WATCHED_S
                findings.figures[IDLE, size, name] = share
            for name, group in groups.items():
                group.prepare("late", single(MB))
                group.command("wait_for_last", key="late", late_s=0.0)
                waited = group.command("wait_for_last", key="late", late_s=LATE_S)[:-1]
                findings.figures[LATE, size, name] = max(used / took for took, used in waited)


def training(plan: Plan, findings: Findings) -> None:
    """`model.fit`, at 2 processes and at 1."""
    for size in (2, 1):
        launches = _available(launch.training_engines(), plan, findings)
        for model, steps in plan.training_steps if launches else ():
            with running(launches, size) as groups:
                say(f"{TRAINING}, {size} processes: {model}")
                findings.times[TRAINING, size, model] = _train(groups, model, steps, plan)


def _train(groups: dict[str, Group], model: str, steps: int, plan: Plan) -> dict[str, Times]:
    """Seconds a step: each turn's, the mean of its ranks.

    Raises:
        RuntimeError: tfring trained without reducing anything.
    """
    samples: dict[str, list[tuple[float, ...]]] = {name: [] for name in groups}
    for group in groups.values():
        group.command("build", model=model)
        group.command("train", steps=3)
    for number in range(plan.training_rounds):
        for name in rotated(list(groups), number):
            answers = groups[name].command("train", steps=steps)
            samples[name].append((sum(step for step, _ in answers) / len(answers),))
            reductions = min(count for _, count in answers)
            if name == "tfring" and len(answers) > 1 and reductions < (steps + 1) * (number + 1):
                raise RuntimeError(
                    f"training {model}: expected an allreduce a step, received {reductions} in "
                    f"all after {number + 1} turns of {steps + 1} steps"
                )
    return {name: Times(tuple(rounds)) for name, rounds in samples.items()}
