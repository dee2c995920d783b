"""Tables and data of a benchmark run, as Markdown for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results")


def significant(value: float, digits: int = 3) -> str:
    """A number with so many significant digits and no exponent: 0.0123, 4.57, 145."""
    if value == 0:
        return "0"
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e+" in text else text if "e" not in text else f"{value:.6f}"


def milliseconds(seconds: float) -> str:
    """Of a duration, without the unit."""
    return significant(1000 * seconds)


@dataclass
class Table:
    """A table of texts.

    Args:
        title: Above it.
        columns: Their heads; the first column names the rows.
        rows: Cells, as many as columns in each row.
        note: Below it.
    """

    title: str
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    note: str = ""

    def markdown(self) -> str:
        """Padded to equal widths, so that it reads as plain text too; numbers stand right.

        Raises:
            ValueError: A row has too few or too many cells.
        """
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"{self.title}: expected {len(self.columns)} cells, received {row}"
                )
        cells = [[str(cell).replace("|", "\\|") for cell in row] for row in self.rows]
        lines = [list(self.columns), *cells]
        widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(self.columns))]

        def joined(line: Sequence[str]) -> str:
            first, *rest = line
            padded = [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
            return "| " + " | ".join([first.ljust(widths[0]), *padded]) + " |"

        rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
        text = [f"## {self.title}", "", joined(self.columns), joined(rule), *map(joined, cells)]
        return "\n".join([*text, "", *([self.note, ""] if self.note else [])])


@dataclass
class Report:
    """Everything that one run found out.

    Args:
        title: Of the page.
        provenance: What ran where: see `benchmarks.provenance`.
        tables: For the page and the data.
        charts: File names, relative to the page, with what they show.
        measurements: One record a measured thing, for the data only.
    """

    title: str
    provenance: Mapping[str, str]
    tables: list[Table] = field(default_factory=list)
    charts: dict[str, str] = field(default_factory=dict)
    measurements: list[dict[str, Any]] = field(default_factory=list)

    def markdown(self) -> str:
        """The page."""
        parts = [f"# {self.title}", ""]
        parts += [f"- {name}: {value}" for name, value in self.provenance.items()]
        parts.append("")
        for file, caption in self.charts.items():
            parts += [f"![{caption}]({file})", ""]
        return "\n".join([*parts, *(table.markdown() for table in self.tables)])

    def write(self, directory: Path, name: str) -> Path:
        """Writes `name.md` and `name.json`; returns the page's path."""
        directory.mkdir(parents=True, exist_ok=True)
        data = {
            "title": self.title,
            "provenance": dict(self.provenance),
            "tables": [vars(table) for table in self.tables],
            "measurements": self.measurements,
        }
        text = json.dumps(data, indent=1) + "\n"
        (directory / f"{name}.json").write_text(text, encoding="utf-8")
        page = directory / f"{name}.md"
        page.write_text(self.markdown(), encoding="utf-8")
        return page
