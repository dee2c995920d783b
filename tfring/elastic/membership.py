"""What a worker and the driver of an elastic job tell each other.

    worker to driver   through a pipe to its host's agent, a line of JSON each:
                       ready, failed, joined, saved, done, raised; alive, every few seconds
    driver to worker   through the job's store:
                       elastic/latest        number of the newest generation
                       elastic/generation/N  JSON: who is in it, or that the job stops

So what a worker has said arrives even if it dies, and before the news of its death. A *watcher*
thread waits for the next generation. It interrupts the engine of the one before, so
that whatever the worker is doing ends and it can go on with the others. It also says that the
worker is alive: a member that hangs before it has joined is seen by the driver alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfring import native
from tfring.config import Config
from tfring.elastic import lifeline
from tfring.errors import RendezvousTimeoutError, TfringError, TransportError

# The watcher looks up so often whether it should end, and says that it is alive.
_WATCH_SLICE_S = 5.0
# The driver takes a worker for lost that has been silent for so many times as long.
_SIGNS_OF_LIFE = 4
_CONNECT_S = 60.0
# A driver that can't be reached is given up after so many times `heartbeat_timeout_s`.
_HEARTBEATS = 6


@dataclass(frozen=True)
class Generation:
    """The members of a job from one change to the next.

    Attributes:
        number: From 1.
        reason: Why there is a new one.
        members: By worker id: rank, size, local_rank, local_size, cross_rank, cross_size, host_id.
        status: Not None: the job stops, and every worker ends with this exit status.
        heard: When this worker heard of it, on the clock of `time.monotonic`.
    """

    number: int
    reason: str = ""
    members: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    status: int | None = None
    heard: float = field(default_factory=time.monotonic)

    @classmethod
    def from_json(cls, data: bytes) -> Generation:
        """As the driver has written it."""
        record = json.loads(data)
        stop = record.get("stop")
        if stop is not None:
            return cls(record["generation"], stop["reason"], status=int(stop["status"]))
        return cls(record["generation"], record["reason"], record["members"])


class Membership:
    """This worker's connection to the driver.

    Args:
        config: Settings of the process.

    Raises:
        TfringError: The store can't be reached.
    """

    def __init__(self, config: Config) -> None:
        self.worker = config.worker_id
        self._words = config.words
        self._slice_s, self._connect_s = _WATCH_SLICE_S, _CONNECT_S
        if config.heartbeat_timeout_s > 0:
            self._slice_s = min(_WATCH_SLICE_S, config.heartbeat_timeout_s / _SIGNS_OF_LIFE)
            self._connect_s = min(_CONNECT_S, _HEARTBEATS * config.heartbeat_timeout_s)
        self._config = config
        self._watched = _connect(config, self._connect_s)
        if config.lifeline is not None:
            lifeline.hold(config.lifeline)
        self._changed = threading.Condition()
        self._newest: Generation | None = None
        self._lost: TfringError | None = None  # why there is no driver any more
        self._closed = False
        self._watcher = threading.Thread(target=self._watch, name="tfring-watcher", daemon=True)
        self._watcher.start()

    def tell(self, kind: str, **what: Any) -> None:
        """Sends the driver a word."""
        line = json.dumps({"kind": kind, **what}).encode() + b"\n"
        if len(line) > select.PIPE_BUF:
            raise ValueError(f"a word of {len(line)} bytes, at most {select.PIPE_BUF} expected")
        if self._words is not None:
            os.write(self._words, line)

    def tell_last(self, kind: str) -> None:
        """Sends the driver a word, if there is still somebody to send it."""
        with contextlib.suppress(OSError):
            self.tell(kind)

    def newest(self) -> Generation | None:
        """The newest generation that has been announced."""
        with self._changed:
            return self._newest

    def next(self, after: int, timeout_s: float | None = None) -> Generation | None:
        """Waits for a generation later than `after`.

        The driver decides how long to wait for enough workers; it ends the wait, too.

        Returns:
            The newest; None when the time is up.

        Raises:
            TfringError: The driver has gone.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._lost or self._is_later(after), timeout_s)
            if self._is_later(after):
                return self._newest
            if self._lost is not None:
                raise self._lost
            return None

    def close(self) -> None:
        """Ends the watcher, within a few seconds, without waiting for it."""
        self._closed = True

    def _is_later(self, after: int) -> bool:
        return self._newest is not None and self._newest.number > after

    def _watch(self) -> None:
        try:
            number = max(1, self._latest())
            while not self._closed:
                self.tell("alive")
                try:
                    number = self._watch_for(number)
                except RendezvousTimeoutError:
                    # The network may be down for a while.
                    self._watched.close()
                    self._watched = _connect(self._config, self._connect_s)
        except TfringError as error:
            self._lose(error)
        except OSError as error:
            self._lose(TransportError(f"the agent of this host has gone: {error}"))
        self._watched.close()

    def _lose(self, why: TfringError) -> None:
        """Training goes on as long as it can; its end says what is missing."""
        with self._changed:
            self._lost = why
            self._changed.notify_all()

    def _latest(self) -> int:
        return int(self._watched.get("elastic/latest", timeout_s=self._connect_s))

    def _watch_for(self, number: int) -> int:
        """Waits a while for a generation; returns the number of the one to wait for next."""
        try:
            data = self._watched.get(f"elastic/generation/{number}", timeout_s=self._slice_s)
        except RendezvousTimeoutError:
            # The driver deletes old ones; this one may have come and gone.
            return max(number, self._latest())
        generation = Generation.from_json(data)
        with self._changed:
            self._newest = generation
            self._changed.notify_all()
        native.load().tfr_interrupt(number - 1, generation.reason.encode())
        return number + 1


def _connect(config: Config, timeout_s: float) -> native.StoreClient:
    host, _, port = config.store.rpartition(":")
    return native.StoreClient(
        host.strip("[]"), int(port), secret=config.secret, timeout_s=timeout_s
    )
