"""The engine of this process: life cycle, place in the job, counters."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from tfring import native
from tfring.config import Config
from tfring.errors import InvalidArgumentError, NotInitializedError, TfringError
from tfring.joining import join_job
from tfring.monitoring.timeline.recording import Recording


class _State:
    lock = threading.Lock()
    config: Config | None = None  # of the running engine
    pid = 0  # of the process that started it
    at_exit = False
    traced_alone = False  # see note_traced_alone
    recording: Recording | None = None  # the timeline
    rehearsing = False  # see rehearse
    joined = False  # a generation of an elastic job


def init(config: Config | None = None) -> None:
    """Joins the job and waits until all its processes have.

    Without a launcher the job is this process alone. A second call with the same settings
    does nothing; after `shutdown()` one may join again, in all processes.

    A worker of an elastic job gets a place for the time being, but joins no one: that happens
    in `tfring.elastic.run`, as often as members come and go.

    Args:
        config: Settings; default: `Config.from_environment()`.

    Raises:
        InvalidArgumentError: A setting is wrong, or differs from those of the first call.
        RendezvousTimeoutError: Not all processes came within `start_timeout_s`; the message
            names those missing.
        AuthenticationError: Another secret than the job's.
        TransportError: The store's address is taken, unknown or unreachable.
    """
    config = config or Config.from_environment()
    with _State.lock:
        if _State.config is not None and _State.pid == os.getpid():
            if config != _State.config:
                raise InvalidArgumentError(
                    "tfring.init was called before with other settings: call tfring.shutdown() "
                    "first"
                )
            return
        _refuse_in_forked_child()
        _refuse_graphs_without_reductions(config)
        _start_configured_timeline(config)
        if not config.elastic:
            join_job(config.engine_options().encode())
        _State.config, _State.pid = config, os.getpid()
        if not _State.at_exit:
            # Goodbye to the others, so that they don't take this process for lost.
            atexit.register(shutdown)
            _State.at_exit = True


def join(config: Config) -> None:
    """Joins a generation of an elastic job, after leaving the one before; for `tfring.elastic`.

    Args:
        config: With this process's place in that generation.

    Raises:
        MembershipChangedError: The generation is over already.
        PeerLostError, RendezvousTimeoutError: Another member has not come.
    """
    with _State.lock:
        native.check(native.load().tfr_shutdown())
        join_job(config.engine_options().encode())
        _State.config, _State.pid, _State.joined = config, os.getpid(), True


def has_joined() -> bool:
    """Whether this process has been a member of an elastic job, however its engine is."""
    return _State.joined


@contextlib.contextmanager
def rehearse() -> Iterator[None]:
    """While it is open, a worker of an elastic job that has not joined acts by itself.

    Operations on Python objects, arrays and variables give it what it has itself; the first
    operation in a graph, a reduction of gradients, fails with NotInitializedError.
    """
    _State.rehearsing = True
    try:
        yield
    finally:
        _State.rehearsing = False


def rehearsing() -> bool:
    """Whether `rehearse` is open."""
    return _State.rehearsing


def shutdown() -> None:
    """Leaves the job in good order; operations pending here end with ShutDownError.

    Does nothing when not initialised.
    """
    with _State.lock:
        if _State.config is None or _State.pid != os.getpid():
            return
        _State.config = None
        healthy = native.load().tfr_health() == 0
        native.check(native.load().tfr_shutdown())
        if _State.recording is not None and not _State.recording.launched:
            try:
                _end_timeline(healthy)
            except TfringError as error:
                warnings.warn(str(error), RuntimeWarning, stacklevel=2)


def start_timeline(path: str, *, detail: bool = False) -> None:
    """Begins to record what all ranks do; see docs/timeline.md. Call it on every rank.

    The ranks need not begin at the same moment. `tfringrun --timeline FILE` and TFRING_TIMELINE
    record from the beginning to the end of a job instead.

    Example:

    >>> tfring.start_timeline("timeline.json")
    >>> model.fit(train, epochs=1, steps_per_epoch=20)
    >>> tfring.stop_timeline()

    Args:
        path: The file, the same on every rank; rank 0 writes it.
        detail: Show each copy, reduction, send and receipt, not just their sums.

    Raises:
        NotInitializedError: Before `tfring.init()`.
        InvalidArgumentError: A timeline is being recorded already.
        TfringError: There is no room beside `path` for what is recorded.
    """
    current = config()
    with _State.lock:
        _State.recording = Recording.start(current, path, detail=detail)


def stop_timeline() -> None:
    """Ends the timeline and, on rank 0, writes the file. Call it on every rank.

    Rank 0 waits for the others, for 10 s at most; then the file has what there is, with a
    warning. `shutdown` does the same if this has not been called. Does nothing when nothing is
    recorded.

    Raises:
        TfringError: The file can't be written.
    """
    healthy = not is_initialized() or native.load().tfr_health() == 0
    with _State.lock:
        if _State.recording is not None:
            _end_timeline(healthy)


def _start_configured_timeline(config: Config) -> None:
    if config.timeline and _State.recording is None:
        recording = Recording.start(config, config.timeline, detail=config.timeline_detail)
        _State.recording = recording
        if recording.launched:
            # It goes on over shutdown and init.
            atexit.register(recording.end_part)


def _end_timeline(healthy: bool) -> None:
    recording, _State.recording = _State.recording, None
    assert recording is not None
    recording.end_part()
    merged = recording.gather(healthy=healthy)
    if merged is not None and (merged.missing or merged.incomplete or merged.dropped):
        warnings.warn(merged.text(), RuntimeWarning, stacklevel=3)


def is_initialized() -> bool:
    """Whether this process has joined a job and not left it."""
    return _State.config is not None and _State.pid == os.getpid()


def config() -> Config:
    """The settings that `init` was called with."""
    current = _State.config
    if current is None or _State.pid != os.getpid():
        _refuse_in_forked_child()
        raise NotInitializedError("tfring is not initialised: call tfring.init() first")
    return current


def _refuse_in_forked_child() -> None:
    if _State.config is not None and _State.pid != os.getpid():
        raise TfringError(
            f"process {os.getpid()} was forked from process {_State.pid} after tfring.init(), "
            "whose threads and connections it does not have: use multiprocessing's "
            '"spawn" or "forkserver" method'
        )


def _refuse_graphs_without_reductions(config: Config) -> None:
    if (config.size > 1 or config.elastic) and _State.traced_alone:
        raise InvalidArgumentError(
            f"tfring.init: expected a job of one process, received one of {config.size}: "
            "functions traced while this process was alone contain no reductions and would go "
            "on without them. Join larger jobs in a new process"
        )


def rank() -> int:
    """Number of this process in the job, from 0."""
    return config().rank


def size() -> int:
    """Number of processes in the job."""
    return config().size


def local_rank() -> int:
    """Number of this process on its host."""
    return config().local_rank


def local_size() -> int:
    """Number of processes on this host."""
    return config().local_size


def cross_rank() -> int:
    """Number of this host in the job."""
    return config().cross_rank


def cross_size() -> int:
    """Number of hosts in the job."""
    return config().cross_size


def note_traced_alone() -> None:
    """Operations were left out of a graph, since the job is this process alone.

    Such a graph must not outlive that, so `init` refuses a larger job from now on.
    """
    if size() == 1:
        _State.traced_alone = True


def alone() -> bool:
    """Whether the job is this process, and always will be."""
    return size() == 1 and not config().elastic


def check_health() -> None:
    """Raises why the engine can do no more, such as PeerLostError; returns when it can."""
    config()
    native.check(native.load().tfr_health())


@dataclass(frozen=True)
class Counters:
    """What the engine has done in this process so far.

    Attributes:
        operations: Operations completed in good order.
        failures: Operations that failed.
        allreduce_operations: Allreduces completed or failed; fused tensors count as one.
        allreduce_bytes: Bytes of their tensors, each once.
        allreduce_seconds: From submission to completion, summed over allreduces.
        allreduce_busy_seconds: Time with at least one allreduce pending.
        wait_seconds: Part of allreduce_seconds before the last needed rank had sent
            its first bytes: time waited for other ranks.
        sent_bytes: Payload sent to other ranks.
        received_bytes: Payload received from them.
        allreduce_tail_seconds: No total: of the last period with allreduces pending, the time
            from the last submission to the end. At the end of a training step that is
            communication which no computation hides.
    """

    operations: int
    failures: int
    allreduce_operations: int
    allreduce_bytes: int
    allreduce_seconds: float
    allreduce_busy_seconds: float
    wait_seconds: float
    sent_bytes: int
    received_bytes: int
    allreduce_tail_seconds: float

    def __sub__(self, other: Counters) -> Counters:
        """What came between two readings; `allreduce_tail_seconds` is the later one's."""
        totals = {name: value - vars(other)[name] for name, value in vars(self).items()}
        return Counters(**{**totals, "allreduce_tail_seconds": self.allreduce_tail_seconds})


def counters() -> Counters:
    """The totals since the library was loaded; they go on over shutdown and init."""
    raw = native.Counters(struct_size=ctypes.sizeof(native.Counters))
    native.check(native.load().tfr_get_counters(ctypes.byref(raw)))
    return Counters(**{name: getattr(raw, name) for name, *_ in raw._fields_[1:]})
