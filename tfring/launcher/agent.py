"""The supervisor of one host's workers.

It starts workers when told, sends their output on, and ends them when told or when the
launcher is gone (its end of the pipe closes): whatever kills the launcher, no worker
outlives it. One thread, asleep until a pipe or a signal wakes it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import time
from collections.abc import Mapping
from typing import Any

from tfring.launcher.cores import usable_cores
from tfring.launcher.environment import thread_variables
from tfring.launcher.messages import MAGIC, Decoder, Kind, Message, ProtocolError, encode
from tfring.launcher.timeline_parts import AgentParts
from tfring.launcher.worker import Worker, WorkerSpec, adopt_orphans, end_orphans

_CHUNK = 1 << 16
# How long children of an ended worker may hold its output open.
_DRAIN_S = 1.0
# Exit status of an agent whose workers had to end because of a signal to it.
STOPPED = 4
# Between SIGTERM and SIGKILL when the agent itself has been told by a signal.
_SIGNALLED_GRACE_S = 5.0
_CONTROL = "control"
_WAKEUP = "wakeup"


class Agent:
    """Runs the workers of this host.

    Args:
        control: Descriptor of the launcher's messages.
        report: Descriptor for messages to the launcher.
        environment: Variables that workers inherit.
    """

    def __init__(self, control: int, report: int, environment: Mapping[str, str]) -> None:
        self._control = control
        self._report = report
        self._environment = dict(environment)
        self._decoder = Decoder()
        self._timeline = AgentParts()
        self._workers: dict[int, Worker] = {}
        self._open: dict[int, set[int]] = {}  # rank -> descriptors that may still give output
        self._exited: dict[int, float] = {}  # rank -> until when its output may take
        self._stop_deadline: float | None = None
        self._told_to_start = False
        self._stays = False  # more workers may come
        self._stop_signal = False
        self._selector = selectors.DefaultSelector()

    def run(self) -> int:
        """Serves until all workers have ended or the launcher is gone; the exit status."""
        adopt_orphans()
        wakeup_read, wakeup_write = os.pipe()
        os.set_blocking(wakeup_write, False)
        os.set_blocking(wakeup_read, False)
        signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
        # A handler, so that the signal wakes select; there is nothing to do in it.
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        # Ctrl-C goes to the launcher, which knows what to do.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        # The whole machine, or the batch job, is being ended: as if told to stop.
        signal.signal(signal.SIGTERM, self._note_stop_signal)
        signal.signal(signal.SIGHUP, self._note_stop_signal)
        self._selector.register(self._control, selectors.EVENT_READ, (_CONTROL, 0, Kind.START))
        self._selector.register(wakeup_read, selectors.EVENT_READ, (_WAKEUP, 0, Kind.START))
        try:
            self._send_bytes(MAGIC + encode(Kind.HELLO))
            while self._stays or self._workers or not self._told_to_start:
                self._turn(wakeup_read)
        except (BrokenPipeError, EOFError, ProtocolError):
            pass  # the launcher is gone: the workers must not stay
        finally:
            self._kill_all()
            end_orphans()
            self._timeline.clean_up()
        return STOPPED if self._stop_signal else 0

    def _turn(self, wakeup: int) -> None:
        for key, _ in self._selector.select(self._seconds_to_wait()):
            what, rank, kind = key.data
            if what == _CONTROL:
                self._read_control()
            elif what == _WAKEUP:
                os.read(wakeup, 4096)
            else:
                self._read_output(key.fd, rank, kind)
        if self._stop_signal and self._stop_deadline is None:
            self._stop(_SIGNALLED_GRACE_S)
        self._notice_exits()
        self._finish_drained()
        if self._stop_deadline is not None and time.monotonic() >= self._stop_deadline:
            for worker in self._workers.values():
                worker.signal(signal.SIGKILL)

    def _seconds_to_wait(self) -> float | None:
        deadlines = list(self._exited.values())
        if self._stop_deadline is not None and self._workers:
            # Past the deadline SIGKILL has been sent; it takes a moment.
            deadlines.append(max(self._stop_deadline, time.monotonic() + 0.1))
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _read_control(self) -> None:
        data = os.read(self._control, _CHUNK)
        if not data:
            raise EOFError
        for message in self._decoder.feed(data):
            self._obey(message)

    def _obey(self, message: Message) -> None:
        if message.kind is Kind.KILL:
            if message.rank in self._workers:
                self._workers[message.rank].signal(signal.SIGKILL)
            return
        request = message.json()
        if message.kind is Kind.START:
            self._told_to_start = True
            self._stays = bool(request["stay"])
            specs = [WorkerSpec(**worker) for worker in request["workers"]]
            for spec in specs:
                if not self._start(spec, request["slots"]):
                    break
        elif message.kind is Kind.STOP:
            self._stop(float(request["grace_s"]))

    def _stop(self, grace_s: float) -> None:
        self._told_to_start = True
        self._stays = False
        self._stop_deadline = time.monotonic() + grace_s
        for worker in self._workers.values():
            worker.signal(signal.SIGTERM)
        for rank in self._exited:
            self._exited[rank] = self._stop_deadline

    def _note_stop_signal(self, number: int, frame: object) -> None:
        self._stop_signal = True

    def _start(self, spec: WorkerSpec, local_size: int) -> bool:
        environment = {**self._environment, **spec.variables}
        environment.update(self._timeline.variables(spec.rank, spec.variables))
        environment.update(thread_variables(usable_cores(), local_size, environment))
        try:
            if not os.path.isdir(spec.directory):
                raise OSError(errno.ENOTDIR, "no such directory", spec.directory)
            worker = Worker(spec, environment)
        except (OSError, ValueError) as error:
            self._send(Kind.FAILED, spec.rank, _why_not_started(error, spec))
            return False
        self._workers[spec.rank] = worker
        self._open[spec.rank] = set(worker.outputs)
        for descriptor, kind in worker.outputs.items():
            self._selector.register(descriptor, selectors.EVENT_READ, ("output", spec.rank, kind))
        self._send(Kind.STARTED, spec.rank, {"pid": worker.pid})
        return True

    def _read_output(self, descriptor: int, rank: int, kind: Kind) -> None:
        data = os.read(descriptor, _CHUNK)
        if data:
            self._send_output(kind, rank, data)
        else:
            self._selector.unregister(descriptor)
            self._open[rank].discard(descriptor)
            if kind is Kind.DYING:
                self._say_dying(rank)

    def _say_dying(self, rank: int) -> None:
        """Says so after the last words, which may be why."""
        for descriptor, kind in self._workers[rank].outputs.items():
            if kind is Kind.WORD and descriptor in self._open[rank]:
                self._drain(descriptor, rank, kind)
        self._send(Kind.DYING, rank)

    def _notice_exits(self) -> None:
        ended = []
        for rank, worker in self._workers.items():
            if rank not in self._exited and (status := worker.poll()) is not None:
                ended.append((status >= 0, rank, status))
        # Of several that ended together, one that a signal killed is the likelier cause.
        for _, rank, status in sorted(ended):
            self._send(Kind.EXITED, rank, {"status": status})
            self._exited[rank] = self._stop_deadline or time.monotonic() + _DRAIN_S

    def _finish_drained(self) -> None:
        for rank, deadline in list(self._exited.items()):
            if self._open[rank] and time.monotonic() < deadline:
                continue
            worker = self._workers.pop(rank)
            worker.signal(signal.SIGKILL)
            kinds = worker.outputs
            for descriptor in self._open.pop(rank):
                self._selector.unregister(descriptor)
                self._drain(descriptor, rank, kinds[descriptor])
            worker.reap()
            del self._exited[rank]
            for data in self._timeline.take(rank):
                self._send(Kind.TIMELINE, rank, data)
            self._send(Kind.FINISHED, rank)

    def _drain(self, descriptor: int, rank: int, kind: Kind) -> None:
        """Sends on what there is already, without waiting for more."""
        os.set_blocking(descriptor, False)
        with contextlib.suppress(BlockingIOError):
            # Bounded: a process that escaped the group may write on for ever.
            for _ in range(64):
                data = os.read(descriptor, _CHUNK)
                if not data:
                    break
                self._send_output(kind, rank, data)
        os.set_blocking(descriptor, True)

    def _send_output(self, kind: Kind, rank: int, data: bytes) -> None:
        if kind is not Kind.WORD:
            self._send(kind, rank, data)
            return
        for word in data.splitlines():
            self._send(kind, rank, word)

    def _kill_all(self) -> None:
        for worker in self._workers.values():
            worker.signal(signal.SIGKILL)
        for worker in self._workers.values():
            worker.reap()

    def _send(self, kind: Kind, rank: int, payload: bytes | dict[str, Any] = b"") -> None:
        self._send_bytes(encode(kind, rank, payload))

    def _send_bytes(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._report, view) :]


def _why_not_started(error: OSError | ValueError, spec: WorkerSpec) -> dict[str, Any]:
    """Exit status as a shell's, and a message."""
    program = spec.command[0]
    if isinstance(error, OSError) and error.errno == errno.ENOTDIR:
        text = f"the directory {spec.directory} does not exist; workers run where tfringrun does"
        return {"status": 1, "message": text}
    if isinstance(error, FileNotFoundError):
        if os.path.isfile(os.path.join(spec.directory, program)) and program.endswith(".py"):
            hint = f"; to run the script: python {program}"
        else:
            hint = ""
        return {"status": 127, "message": f"command not found: {program}{hint}"}
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return {"status": 126, "message": f"cannot run {program}: {reason}"}
