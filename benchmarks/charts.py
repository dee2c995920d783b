"""Charts of measurements, as PNG files. One look: a colour is an engine's, or an algorithm's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.report import significant
from benchmarks.workloads import size_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Points of a line: size in bytes, seconds.
Line = Sequence[tuple[float, float]]

_COLOURS = {
    "tfring": "#c8102e",
    "memcpy": "#888888",
    "Open MPI": "#1f5fa8",
    "PyTorch gloo": "#e07b00",
    "MultiWorkerMirrored": "#2b8a3e",
    "Horovod (MPI)": "#7b3fa0",
    "Horovod (gloo)": "#b07cc6",
    "independent": "#444444",
    "no reduction": "#888888",
    "exchange": "#c8102e",
    "doubling": "#1f5fa8",
    "direct": "#e07b00",
    "ring": "#7b3fa0",
    "leaders exchange": "#d6336c",
    "leaders doubling": "#17a2b8",
    "hierarchical direct": "#2b8a3e",
    "hierarchical ring": "#444444",
}
_OTHERS = ("#17a2b8", "#b5651d", "#5c940d", "#d6336c", "#495057")


def colour(label: str) -> str:
    """A label's own, or, such as of "tfring, raw", that of the longest name it begins with."""
    known = [name for name in _COLOURS if label.startswith(name)]
    if known:
        return _COLOURS[max(known, key=len)]
    return _OTHERS[sum(map(ord, label)) % len(_OTHERS)]


def _figure(panels: int, title: str, height: float) -> tuple[Any, list[Axes]]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, panels, figsize=(5.6 * panels + 0.4, height), squeeze=False, layout="constrained"
    )
    figure.suptitle(title, fontsize=13, fontweight="bold")
    for ax in axes[0]:
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_axisbelow(True)
    return figure, list(axes[0])


def _save(figure: Any, path: Path) -> None:
    from matplotlib import pyplot

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def times_by_size(path: Path, title: str, panels: Mapping[str, Mapping[str, Line]]) -> None:
    """Time against size, both logarithmic; one line an engine.

    Args:
        path: The PNG.
        title: Above all.
        panels: For each panel's title, the lines by their labels.
    """
    from matplotlib.ticker import FuncFormatter, NullFormatter

    figure, axes = _figure(len(panels), title, 4.6)
    shared_low, shared_high = float("inf"), 0.0
    for ax, (name, lines) in zip(axes, panels.items(), strict=True):
        sizes = sorted({size for line in lines.values() for size, _ in line})
        for label, line in lines.items():
            own = label.startswith("tfring")
            dashed = label == "memcpy" or label == "no reduction" or label.endswith("raw")
            milliseconds = [1000 * seconds for _, seconds in line]
            ax.plot(
                [size for size, _ in line],
                milliseconds,
                label=label,
                color=colour(label),
                linewidth=2.4 if own else 1.5,
                linestyle="--" if dashed else "-",
                marker="o",
                markersize=5 if own else 3.5,
                zorder=3 if own else 2,
            )
            shared_low = min([shared_low, *milliseconds])
            shared_high = max([shared_high, *milliseconds])
        ax.set(xscale="log", yscale="log", title=name, xlabel="bytes of the tensors")
        ax.set_xticks(sizes, [size_text(int(size)) for size in sizes], rotation=35)
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.tick_params(axis="x", which="minor", length=0)
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.grid(which="major", color="#dddddd")
    for ax in axes:
        ax.set_ylim(shared_low / 1.6, shared_high * 1.6)
    axes[0].set_ylabel("milliseconds, median")
    axes[0].legend(frameon=False, fontsize=9)
    _save(figure, path)


def bars(
    path: Path,
    title: str,
    panels: Mapping[str, Mapping[str, Mapping[str, float]]],
    *,
    unit: str,
    line_at: float | None = None,
    logarithmic: bool = False,
) -> None:
    """Groups of bars, each with its value above it.

    Args:
        path: The PNG.
        title: Above all.
        panels: For each panel's title, groups by their names, and in each the bars by label.
        unit: Label of the axis.
        line_at: Where bars begin, up or down, such as 1 for ratios.
        logarithmic: The axis; for values of several magnitudes.
    """
    from matplotlib.ticker import FuncFormatter

    base = line_at or 0.0
    figure, axes = _figure(len(panels), title, 4.6)
    for ax, (name, groups) in zip(axes, panels.items(), strict=True):
        labels = list(dict.fromkeys(label for group in groups.values() for label in group))
        width = 0.84 / max(1, len(labels))
        for index, label in enumerate(labels):
            offset = (index - (len(labels) - 1) / 2) * width
            places = [i + offset for i, group in enumerate(groups.values()) if label in group]
            values = [group[label] for group in groups.values() if label in group]
            heights = [value - base for value in values]
            drawn = ax.bar(
                places, heights, width * 0.92, bottom=base, label=label, color=colour(label)
            )
            crowded = len(labels) * len(groups) > 14
            ax.bar_label(
                drawn,
                [significant(value, 3 if value >= 1 else 2) for value in values],
                fontsize=7 if crowded else 8,
                padding=2,
                rotation=90 if crowded else 0,
            )
        ax.set_xticks(range(len(groups)), list(groups))
        ax.tick_params(axis="x", length=0, labelsize=9)
        ax.set_title(name)
        if logarithmic:
            ax.set_yscale("log")
            ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.margins(y=0.14)
        ax.grid(axis="y", which="major", color="#dddddd")
        if line_at is not None:
            ax.axhline(line_at, color="#333333", linewidth=1)
    low = min(ax.get_ylim()[0] for ax in axes)
    high = max(ax.get_ylim()[1] for ax in axes)
    for ax in axes:
        ax.set_ylim(low, high)
    axes[0].set_ylabel(unit)
    axes[-1].legend(frameon=False, fontsize=9)
    _save(figure, path)


def _both_logarithmic(ax: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    ax.set(xscale="log", yscale="log")
    ax.xaxis.set_minor_formatter(NullFormatter())
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.grid(which="major", color="#dddddd")


def times_by_ranks(path: Path, title: str, panels: Mapping[str, Mapping[str, Line]]) -> None:
    """Time against the number of ranks, both logarithmic; one line an algorithm.

    Args:
        path: The PNG.
        title: Above all.
        panels: For each panel's title, the lines by their labels; points are (ranks, seconds).
    """
    figure, axes = _figure(len(panels), title, 4.6)
    for ax, (name, lines) in zip(axes, panels.items(), strict=True):
        for label, line in lines.items():
            ax.plot(
                [ranks for ranks, _ in line],
                [1000 * seconds for _, seconds in line],
                label=label,
                color=colour(label),
                marker="o",
                markersize=3.5,
            )
        _both_logarithmic(ax)
        ticks = sorted({ranks for line in lines.values() for ranks, _ in line})
        ax.set_xticks(ticks, [f"{ranks:g}" for ranks in ticks], rotation=35)
        ax.tick_params(axis="x", which="minor", length=0)
        ax.set(title=name, xlabel="ranks")
        ax.legend(frameon=False, fontsize=9)
    axes[0].set_ylabel("milliseconds")
    _save(figure, path)


def predicted_and_measured(path: Path, points: Mapping[str, Line]) -> None:
    """Each point's predicted time against its measured one.

    Args:
        path: The PNG.
        points: By label; (measured, predicted) in seconds.
    """
    figure, (ax,) = _figure(1, "Predicted against measured", 5.4)
    for label, line in points.items():
        ax.scatter(
            [1000 * measured for measured, _ in line],
            [1000 * predicted for _, predicted in line],
            label=label,
            color=colour(label),
            s=16,
            zorder=3,
        )
    all_times = [1000 * time for line in points.values() for pair in line for time in pair]
    ends = (min(all_times) / 1.5, max(all_times) * 1.5)
    ax.plot(ends, ends, color="#333333", linewidth=1)
    ax.fill_between(ends, [e / 1.5 for e in ends], [e * 1.5 for e in ends], color="#eeeeee")
    _both_logarithmic(ax)
    ax.set(xlabel="measured, ms", ylabel="predicted, ms (grey: within a factor of 1.5)")
    ax.legend(frameon=False, fontsize=9)
    _save(figure, path)
