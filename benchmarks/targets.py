"""The project's targets for speed, and which of them a run has met."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.findings import Findings
from benchmarks.report import Table, significant
from benchmarks.sections import HALF, IDLE, LATE, OPS, RAW, TRAINING
from benchmarks.workloads import MB, resnet50_gradients, size_text, thousand_small

# Names of workloads.
_LARGE = (size_text(64 * MB), size_text(256 * MB))
_RESNET50 = resnet50_gradients().name
_SMALL = thousand_small().name
_MODELS = {"cnn": "small CNN", "resnet50": "ResNet-50"}


@dataclass(frozen=True)
class Result:
    """One target and what was measured.

    Attributes:
        text: What is compared.
        processes: How many took part.
        measured: None: not measured in this run.
        limit: The bar.
        at_most: Whether `measured` must not exceed it; else it must reach it.
        unit: Of both, such as " ms"; "" for ratios.
    """

    text: str
    processes: int
    measured: float | None
    limit: float
    at_most: bool
    unit: str = ""

    @property
    def met(self) -> bool | None:
        """None: not measured."""
        if self.measured is None:
            return None
        return self.measured <= self.limit if self.at_most else self.measured >= self.limit


def _raw(findings: Findings, size: int) -> Iterator[Result]:
    for work in findings.works(RAW, size):
        if work in (_RESNET50, _SMALL):
            continue
        measured = findings.ratio((RAW, size, work), "tfring", "open_mpi")
        limit = 0.5 if work in _LARGE else 1.0
        yield Result(f"allreduce {work}: tfring / Open MPI", size, measured, limit, True)
    if size == 2:
        measured = findings.ratio((RAW, size, _LARGE[1]), "tfring", "memcpy")
        yield Result(f"allreduce {_LARGE[1]}: tfring / memcpy", size, measured, 2.0, True)
    for peer, title, limit in (("open_mpi", "Open MPI", 1.5), ("gloo", "PyTorch gloo", 4.0)):
        measured = findings.ratio((RAW, size, _RESNET50), peer, "tfring")
        yield Result(f"{_RESNET50}: {title} / tfring", size, measured, limit, False)


def _ops(findings: Findings, size: int) -> Iterator[Result]:
    if size == 2:
        for work in findings.works(OPS, size):
            if work in (_RESNET50, _SMALL):
                continue
            place = (OPS, size, work)
            added = findings.difference(place, "tfring_op", "no_reduction")
            raw = findings.median(place, "tfring")
            measured = None if added is None or raw is None else 1000 * (added - raw)
            text = f"allreduce {work}: op - raw"
            yield Result(text, size, measured, 0.15, True, " ms")
    for work, peers in (
        (_RESNET50, {"mwms": 4.0, "horovod_mpi": 4.0, "horovod_gloo": 4.0}),
        (_SMALL, {"mwms": 4.0, "horovod_mpi": 20.0, "horovod_gloo": 20.0}),
    ):
        titles = {"mwms": "MultiWorkerMirrored", "horovod_mpi": "Horovod (MPI)"}
        for peer, limit in peers.items():
            measured = findings.ratio_beyond((OPS, size, work), "no_reduction", peer, "tfring_op")
            title = titles.get(peer, "Horovod (gloo)")
            yield Result(f"{work}: {title} / tfring op", size, measured, limit, False)


def _half(findings: Findings, size: int) -> Iterator[Result]:
    for work in findings.works(HALF, size):
        for dtype in ("float16", "bfloat16"):
            measured = findings.ratio((HALF, size, work), dtype, "float32")
            yield Result(f"{work}: {dtype} / float32", size, measured, 0.6, True)


def _processor_time(findings: Findings, size: int) -> Iterator[Result]:
    """A rank that waits wakes up for heartbeats and spins for some microseconds."""
    idle = findings.figures.get((IDLE, size, "tfring"))
    yield Result("idle engine: share of a core", size, idle, 0.001, True)
    if size > 2:
        late = findings.figures.get((LATE, size, "tfring"))
        yield Result("rank that waits: share of a core", size, late, 0.01, True)


def _training(findings: Findings) -> Iterator[Result]:
    for size, limit, other in ((2, 97.0, "independent"), (1, 99.0, "plain Keras")):
        for model, title in _MODELS.items():
            speed = findings.ratio((TRAINING, size, model), "alone", "tfring")
            measured = None if speed is None else 100 * speed
            text = f"training {title}: speed against {other}"
            yield Result(text, size, measured, limit, False, " %")


def results(findings: Findings, sizes: tuple[int, ...] = (2, 4)) -> list[Result]:
    """Every target, for those numbers of processes."""
    found: list[Result] = []
    for size in sizes:
        for part in (_raw, _ops, _half, _processor_time):
            found += part(findings, size)
    return [*found, *_training(findings)]


def table(found: list[Result]) -> Table:
    """The targets as a table."""
    words = {True: "met", False: "MISSED", None: "not measured"}
    rows = [
        [
            one.text,
            str(one.processes),
            "-" if one.measured is None else significant(one.measured) + one.unit,
            f"{'at most' if one.at_most else 'at least'} {one.limit:g}{one.unit}",
            words[one.met],
        ]
        for one in found
    ]
    missed = sum(one.met is False for one in found)
    unknown = sum(one.met is None for one in found)
    return Table(
        "Targets",
        ("target", "processes", "measured", "bar", ""),
        list(rows),
        f"{len(found) - missed - unknown} met, {missed} missed, {unknown} not measured.",
    )
