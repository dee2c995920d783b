"""Prints what each kind of test counted, from the JUnit files of one `make test`."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def counts(path: Path) -> dict[str, int]:
    root = ElementTree.parse(path).getroot()
    suites = [root] if root.tag == "testsuite" else root.findall("testsuite")
    names = ("tests", "failures", "errors", "skipped")
    return {name: sum(int(suite.get(name, 0)) for suite in suites) for name in names}


def main() -> None:
    files = sorted(Path(sys.argv[1]).glob("*.xml"), key=lambda path: path.stat().st_mtime)
    print(f"{'':16}{'passed':>8}{'failed':>8}{'skipped':>8}")
    for path in files:
        count = counts(path)
        failed = count["failures"] + count["errors"]
        passed = count["tests"] - failed - count["skipped"]
        print(f"{path.stem:16}{passed:8}{failed:8}{count['skipped']:8}")


if __name__ == "__main__":
    main()
