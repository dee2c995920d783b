"""`python -m tfring.monitoring.timeline FILE`: prints a timeline's summary.

If a launcher was killed before it could put the file together, `--merge` does so.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tfring.errors import TfringError
from tfring.monitoring.timeline.merge import merge, parts_directory
from tfring.monitoring.timeline.summary import load, summarize, text


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line to its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tfring.monitoring.timeline", description="Summarizes a timeline."
    )
    parser.add_argument("file", type=Path, help="what --timeline has named")
    parser.add_argument(
        "--merge",
        nargs="?",
        type=Path,
        const=Path(),
        metavar="DIRECTORY",
        help="make the file first, of the parts in DIRECTORY (default: FILE.parts)",
    )
    options = parser.parse_args(arguments)
    try:
        if options.merge is not None:
            given = options.merge != Path()
            directory = options.merge if given else parts_directory(options.file)
            print(merge(directory, options.file).text())
        print(text(summarize(load(options.file))))
    except TfringError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
