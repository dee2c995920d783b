"""One rank of a RankPool: runs the functions that the test process names, one at a time.

Started by the launcher (or by hand) as `python rank_worker.py SOCKET`.
"""

from __future__ import annotations

import gc
import importlib.util
import sys
import traceback
from multiprocessing.connection import Client, Connection
from pathlib import Path
from types import ModuleType
from typing import Any

import tfring
from tfring.config import Config

# As pytest does for the test process: test modules import from `harness`.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def load_module(path: str) -> ModuleType:
    """The module at `path`, loaded once however many of its functions run."""
    name = "rank_module_" + str(abs(hash(path)))
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        sys.path.insert(0, str(Path(path).parent))
        spec.loader.exec_module(module)
    return sys.modules[name]


def run_task(path: str, name: str, args: tuple[Any, ...], init: bool) -> tuple[str, Any]:
    try:
        function = getattr(load_module(path), name)
        if init:
            tfring.init()
        return "ok", function(*args)
    except BaseException:
        text = traceback.format_exc()
        print(text, file=sys.stderr, flush=True)
        return "error", text
    finally:
        if init:
            tfring.shutdown()
        gc.collect()


def serve(connection: Connection) -> None:
    while True:
        task = connection.recv()
        if task is None:
            return
        status, value = run_task(*task)
        sys.stdout.flush()
        try:
            connection.send((status, value))
        except (TypeError, AttributeError, ValueError) as error:  # a result that can't pickle
            connection.send(("error", f"the result {value!r} does not pickle: {error}"))


def main() -> None:
    connection = Client(sys.argv[1], family="AF_UNIX")
    connection.send(Config.from_environment().rank)
    try:
        serve(connection)
    except EOFError:
        sys.exit("the test process is gone")


if __name__ == "__main__":
    main()
