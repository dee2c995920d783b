"""The driver's side of an elastic job, at a test's command: it announces what it is told to."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from tfring.native import StoreClient, StoreServer

SCRIPT = Path(__file__).with_name("count_steps.py")
LIMIT_S = 90.0

Word = dict[str, Any]


@dataclass
class FakeWorker:
    """A process that the driver has started, and what it has said."""

    id: str
    process: subprocess.Popen[str]
    pipe: int
    words: list[Word] = field(default_factory=list)
    unread: bytes = b""

    def hear(self) -> list[Word]:
        """All that it has said so far, without signs of life."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.pipe, 65536):
                self.unread += data
        *lines, self.unread = self.unread.split(b"\n")
        words = [json.loads(line) for line in lines]
        self.words += [word for word in words if word["kind"] != "alive"]
        return self.words

    def said(self, kind: str, **what: Any) -> bool:
        return any(
            word["kind"] == kind and all(word.get(name) == value for name, value in what.items())
            for word in self.hear()
        )

    def end(self) -> tuple[int, str, str]:
        """Its exit status, output and errors."""
        output, errors = self.process.communicate(timeout=LIMIT_S)
        self.hear()
        return self.process.returncode, output, errors


class FakeDriver:
    """Serves a store and starts count_steps.py; kills what is left at the end.

    Args:
        directory: $FLAGS of the workers, by which a test tells them things.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.number = 0
        self.workers: dict[str, FakeWorker] = {}
        self._secret = secrets.token_hex(8)
        self.server = StoreServer("127.0.0.1", secret=self._secret)
        self._store = StoreClient("127.0.0.1", self.server.port, secret=self._secret)
        self._store.set("elastic/latest", b"0")

    def __enter__(self) -> FakeDriver:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for worker in self.workers.values():
            worker.process.kill()
            worker.process.communicate(timeout=LIMIT_S)
            os.close(worker.pipe)
        self._store.close()
        self.server.stop()

    def start(self, count: int = 1, **env: str) -> list[FakeWorker]:
        """Starts workers, which are newcomers once there is a generation."""
        started = []
        for _ in range(count):
            number = len(self.workers)
            mine, theirs = os.pipe()
            os.set_blocking(mine, False)
            place = {
                "TFRING_RANK": str(number),
                "TFRING_SIZE": str(number + 1),
                "TFRING_LOCAL_RANK": str(number),
                "TFRING_LOCAL_SIZE": str(number + 1),
                "TFRING_STORE": f"127.0.0.1:{self.server.port}",
                "TFRING_SECRET": self._secret,
                "TFRING_GENERATION": str(self.number),
                "TFRING_ELASTIC": "1",
                "TFRING_WORKER_ID": f"w{number}",
                "TFRING_WORDS": str(theirs),
                "FLAGS": str(self.directory),
            }
            process = subprocess.Popen(
                [sys.executable, str(SCRIPT)],
                env={**os.environ, **place, **env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                pass_fds=(theirs,),
            )
            os.close(theirs)
            worker = FakeWorker(f"w{number}", process, mine)
            self.workers[worker.id] = worker
            started.append(worker)
        return started

    def announce(self, members: Sequence[FakeWorker], reason: str = "a test") -> int:
        """The next generation; ranks in the order given. Its number."""
        host = {"local_size": len(members), "cross_rank": 0, "cross_size": 1, "host_id": "here"}
        places = {
            worker.id: {"rank": rank, "size": len(members), "local_rank": rank, **host}
            for rank, worker in enumerate(members)
        }
        self._write({"members": places, "reason": reason})
        return self.number

    def stop(self, status: int, reason: str) -> None:
        self._write({"stop": {"status": status, "reason": reason}})

    def wait(self, workers: Sequence[FakeWorker], kind: str, **what: Any) -> None:
        """Until each of the workers has said so."""
        deadline = time.monotonic() + LIMIT_S
        for worker in workers:
            while not worker.said(kind, **what):
                if worker.process.poll() is not None:
                    raise AssertionError(f"{worker.id} has ended: {worker.end()}")
                assert time.monotonic() < deadline, (worker.id, kind, what, worker.words[-5:])
                self._listen()
                time.sleep(0.005)

    def begin(self, count: int, **env: str) -> list[FakeWorker]:
        """A job of so many workers, in generation 1."""
        workers = self.start(count, **env)
        self.wait(workers, "ready")
        self.announce(workers, "the job begins")
        return workers

    def flag(self, name: str, text: str = "") -> None:
        (self.directory / name).write_text(text)

    def _listen(self) -> None:
        """As agents do: a worker whose pipe is full could not go on."""
        for worker in self.workers.values():
            worker.hear()

    def _write(self, record: dict[str, Any]) -> None:
        self._listen()
        self.number += 1
        data = json.dumps({"generation": self.number, **record}).encode()
        self._store.set(f"elastic/generation/{self.number}", data)
        self._store.set("elastic/latest", str(self.number).encode())
        if self.number > 16:
            self._store.delete(f"elastic/generation/{self.number - 16}")
