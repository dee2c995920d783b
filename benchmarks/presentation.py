"""Tables and charts of what was found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks import charts
from benchmarks.findings import Findings, Place
from benchmarks.report import Report, Table, milliseconds, significant
from benchmarks.sections import HALF, IDLE, LATE, OPS, RAW, TRAINING
from benchmarks.timing import Times
from benchmarks.workloads import ALLREDUCE_BYTES, size_text

_TITLES = {
    RAW: "Allreduce in place, without TensorFlow",
    OPS: "Allreduce in a tf.function",
    HALF: "Half precision, as many elements as float32",
}
_OWN = {RAW: "tfring", OPS: "tfring_op", HALF: "float32"}
_LABELS = {
    "open_mpi": "Open MPI",
    "gloo": "PyTorch gloo",
    "mwms": "MultiWorkerMirrored",
    "horovod_mpi": "Horovod (MPI)",
    "horovod_gloo": "Horovod (gloo)",
    "tfring_op": "tfring op",
}
_MODELS = {"cnn": "small CNN, 1.2 M parameters", "resnet50": "ResNet-50, 64x64 images"}
_SIZES = {size_text(size): size for size in ALLREDUCE_BYTES}
_HOW = (
    "Median (minimum) in milliseconds, over all repetitions, of the time from the moment the "
    "last rank is ready to start to the moment the last rank has finished. Columns with / are "
    "ratios of times: the median of the rounds' ratios, since what disturbs the machine for "
    "longer than a round disturbs both sides alike."
)


def _label(section: str, name: str) -> str:
    if section == OPS and name == "tfring":
        return "tfring raw"
    return _LABELS.get(name, name)


def _processes(size: int) -> str:
    return "1 process" if size == 1 else f"{size} processes"


def _sizes_of(findings: Findings, section: str) -> list[int]:
    return sorted({size for where, size, _ in findings.times if where == section})


def _cell(times: Times | None) -> str:
    if times is None:
        return "-"
    return f"{milliseconds(times.median)} ({milliseconds(times.least)})"


def _comparison(findings: Findings, section: str, size: int) -> Table:
    """Times of all contestants, then ratios to tfring's."""
    works = findings.works(section, size)
    names = list(findings.times[section, size, works[0]])
    own = _OWN[section]
    others = [name for name in names if name != own and own in names]
    own_label = _label(section, own)
    if section == HALF:
        heads = [f"{name} / {own_label}" for name in others]
    else:
        heads = [f"{_label(section, name)} / {own_label}" for name in others]
    columns = [_processes(size), *(f"{_label(section, name)}, ms" for name in names), *heads]
    rows = []
    for work in works:
        place = (section, size, work)
        ratios = [findings.ratio(place, name, own) for name in others]
        rows.append(
            [
                work,
                *(_cell(findings.times[place].get(name)) for name in names),
                *("-" if ratio is None else significant(ratio) for ratio in ratios),
            ]
        )
    return Table(f"{_TITLES[section]}: {_processes(size)}", columns, list(rows), _HOW)


def _training(findings: Findings) -> Table:
    rows = []
    for (section, size, model), times in findings.times.items():
        if section != TRAINING:
            continue
        place = (section, size, model)
        speed = findings.ratio(place, "alone", "tfring")
        percent = "-" if speed is None else f"{100 * speed:.1f} %"
        cells = [_cell(times.get(name)) for name in ("alone", "tfring")]
        rows.append([_MODELS[model], str(size), *cells, percent])
    note = (
        "Milliseconds a step, median (minimum) over turns, the mean of the ranks. Independent: "
        "the same model, data and number of processes at the same time, but plain Keras without "
        "communication. One thread a process."
    )
    columns = ("model", "processes", "independent, ms", "tfring, ms", "speed of a process")
    return Table("Training with model.fit", columns, list(rows), note)


def _processor_time(findings: Findings) -> Table:
    rows = []
    for (section, size, name), idle in findings.figures.items():
        if section == IDLE:
            late = findings.figures[LATE, size, name]
            rows.append([_label(RAW, name), str(size), f"{idle:.4f}", f"{late:.4f}"])
    note = (
        "Processor time per second, of the rank that uses most. Idle: joined, with nothing to "
        "do; Open MPI has no thread of its own. Waiting: in an allreduce for which the last rank "
        "comes a second late."
    )
    columns = ("engine", "processes", "idle", "waiting")
    return Table("Processor time", columns, list(rows), note)


def _lines(findings: Findings, section: str, size: int) -> dict[str, list[tuple[float, float]]]:
    lines: dict[str, list[tuple[float, float]]] = {}
    for work in findings.works(section, size):
        if work in _SIZES:
            for name, times in findings.times[section, size, work].items():
                lines.setdefault(_label(section, name), []).append((_SIZES[work], times.median))
    return lines


def _ratios(findings: Findings, section: str, size: int) -> dict[str, dict[str, float]]:
    groups: dict[str, dict[str, float]] = {}
    for work in findings.works(section, size):
        place: Place = (section, size, work)
        group = groups.setdefault(work.replace("ResNet-50 ", "ResNet-50\n"), {})
        for name in findings.times[place]:
            ratio = findings.ratio(place, name, _OWN[section])
            if ratio is not None and name not in (
                _OWN[section],
                "tfring",
                "no_reduction",
                "memcpy",
            ):
                group[_label(section, name)] = ratio
    return {work: group for work, group in groups.items() if group}


def _draw_comparison(
    findings: Findings, section: str, directory: Path, name: str
) -> Mapping[str, str]:
    drawn: dict[str, str] = {}
    sizes = _sizes_of(findings, section)
    panels = {_processes(size): _lines(findings, section, size) for size in sizes}
    if any(len(line) > 1 for lines in panels.values() for line in lines.values()):
        file = f"{name}-{section}-times.png"
        charts.times_by_size(directory / file, _TITLES[section], panels)
        drawn[file] = f"{_TITLES[section]}: time by size"
    bars = {_processes(size): _ratios(findings, section, size) for size in sizes}
    if all(bars.values()):
        file = f"{name}-{section}-ratios.png"
        title = f"{_TITLES[section]}: how many times as long as tfring"
        charts.bars(
            directory / file, title, bars, unit="times tfring's", line_at=1.0, logarithmic=True
        )
        drawn[file] = title
    return drawn


def _draw_training(findings: Findings, directory: Path, name: str) -> Mapping[str, str]:
    panels: dict[str, dict[str, dict[str, float]]] = {}
    for section, size, model in findings.times:
        if section == TRAINING:
            times = findings.times[section, size, model]
            panels.setdefault(_MODELS[model], {})[_processes(size)] = {
                "independent": 1000 * times["alone"].median,
                "tfring": 1000 * times["tfring"].median,
            }
    file = f"{name}-training.png"
    title = "Training with model.fit, each process"
    charts.bars(directory / file, title, panels, unit="milliseconds a step, median")
    return {file: title}


def fill(report: Report, findings: Findings, directory: Path, name: str) -> None:
    """Adds all tables, and charts as `directory/name-*.png`."""
    directory.mkdir(parents=True, exist_ok=True)
    for section in (RAW, OPS, HALF):
        sizes = _sizes_of(findings, section)
        report.tables += [_comparison(findings, section, size) for size in sizes]
        if sizes and section != HALF:
            report.charts.update(_draw_comparison(findings, section, directory, name))
    if _sizes_of(findings, TRAINING):
        report.tables.append(_training(findings))
        report.charts.update(_draw_training(findings, directory, name))
    if findings.figures:
        report.tables.append(_processor_time(findings))
    if findings.left_out:
        rows = [[title, reason] for title, reason in findings.left_out.items()]
        report.tables.append(Table("Left out", ("engine", "reason"), list(rows)))
    report.measurements += findings.records()
