"""Runs clang-tidy over the library's translation units, several at once.

A file is checked again only when it, a header or the configuration has changed: the
digest of all that is kept beside the build.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import sources

TIMEOUT_S = 300


def digest(paths: list[Path]) -> str:
    total = hashlib.sha256()
    for path in paths:
        total.update(path.read_bytes())
    return total.hexdigest()


def check(tool: Path, build: Path, source: Path) -> tuple[Path, int, str]:
    result = subprocess.run(
        [str(tool), "-p", str(build), "--quiet", str(source)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return source, result.returncode, result.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True, help="has compile_commands.json")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()

    commands = json.loads((options.build / "compile_commands.json").read_text())
    library = sources.ROOT / "custom_ops"
    units = sorted({Path(command["file"]) for command in commands})
    units = [unit for unit in units if library in unit.parents]

    tool = Path(sys.executable).with_name("clang-tidy")
    headers = sources.files("custom_ops", suffixes=(".h",))
    shared = digest([sources.ROOT / ".clang-tidy", *headers])
    cache_file = options.build / "clang_tidy.json"
    clean = json.loads(cache_file.read_text()) if cache_file.exists() else {}
    keys = {unit: f"{shared}-{digest([unit])}" for unit in units}
    changed = [unit for unit in units if clean.get(str(unit)) != keys[unit]]

    failed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for source, code, output in pool.map(lambda u: check(tool, options.build, u), changed):
            if code == 0:
                clean[str(source)] = keys[source]
            else:
                failed += 1
                print(output, end="")
    cache_file.write_text(json.dumps(clean))
    print(f"clang-tidy: {len(changed)} of {len(units)} files checked, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
