"""Records this rank's part of a timeline, and brings the parts together where no launcher does.

Under `tfringrun --timeline` the launcher has said where the part goes, and it merges. Otherwise
rank 0 does: ranks on its host leave their parts beside the file, others send theirs through
the job's store.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tfring import native
from tfring.config import Config
from tfring.errors import InvalidArgumentError, TfringError
from tfring.monitoring.timeline.merge import Merged, merge, part_path, parts_directory
from tfring.monitoring.timeline.part import Part, PartError
from tfring.monitoring.timeline.steps import STEP

# How long rank 0 waits for the others' parts, and for those of a job that has broken down.
_WAIT_S = 10.0
_BROKEN_WAIT_S = 1.0
_LOOK_AGAIN_S = 0.02
_CHUNK = 4 << 20


def is_recording() -> bool:
    """Whether this process records a timeline."""
    return bool(native.load().tfr_timeline_recording())


def message(text: str) -> None:
    """Puts a message into the timeline, if there is one."""
    native.load().tfr_timeline_instant(text.encode())


class StepMarker:
    """Marks training steps in the timeline; costs next to nothing without one."""

    def __init__(self) -> None:
        self._began = 0

    def begin(self) -> None:
        """A step, or several that run as one, begins."""
        self._began = time.monotonic_ns() if is_recording() else 0

    def end(self, steps: int = 1) -> None:
        """It has ended. Does nothing if the recording began later.

        Args:
            steps: How many steps it was.
        """
        if self._began:
            now = time.monotonic_ns()
            native.load().tfr_timeline_span(STEP.encode(), self._began, now, steps)
            self._began = 0


@contextlib.contextmanager
def timeline_step(steps: int = 1) -> Iterator[None]:
    """Marks a training step of one's own loop in the timeline, if one is being recorded.

    In `fit` the callback `BroadcastInitialVariables` does it.

    Example:

    >>> for batch in batches:
    ...     with tfring.timeline_step():
    ...         train_step(batch)

    Args:
        steps: How many steps run within.
    """
    marker = StepMarker()
    marker.begin()
    yield
    marker.end(steps)


@dataclass(frozen=True)
class Recording:
    """A timeline that is being recorded.

    Attributes:
        config: The settings of the job.
        target: The file for all ranks.
        directory: Where the parts go on this host.
        launched: Whether the launcher merges them.
    """

    config: Config
    target: Path
    directory: Path
    launched: bool

    @classmethod
    def start(cls, config: Config, path: str, *, detail: bool) -> Recording:
        """Begins this rank's part.

        Raises:
            InvalidArgumentError: A timeline is being recorded already.
            TfringError: The part's file can't be made.
        """
        target = Path(path).absolute()
        launched = bool(config.timeline_part) and path == config.timeline
        part = Path(config.timeline_part) if launched else _own_part(config, target)
        if is_recording():
            raise InvalidArgumentError(
                "start_timeline: a timeline is being recorded already (by start_timeline, by "
                "TFRING_TIMELINE or by tfringrun --timeline); end it with stop_timeline"
            )
        try:
            part.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TfringError(f"timeline {part}: {error.strerror}") from error
        most = config.timeline_records
        start = native.load().tfr_timeline_start
        native.check(start(str(part).encode(), config.rank, int(detail), most))
        return cls(config, target, part.parent, launched)

    def end_part(self) -> None:
        """Ends this rank's part."""
        native.check(native.load().tfr_timeline_stop())

    def gather(self, *, healthy: bool = True) -> Merged | None:
        """Brings all parts together, which have been ended; nothing where the launcher does.

        Args:
            healthy: No rank has been lost, so that there is something to wait for.

        Returns:
            On rank 0 what has been put together.
        """
        if self.launched:
            return None
        wait_s = _WAIT_S if healthy else _BROKEN_WAIT_S
        if self.config.rank == 0:
            self._collect(wait_s)
            return merge(self.directory, self.target, size=self.config.size)
        if self.config.cross_rank > 0:
            self._send(wait_s)
        return None

    # ---- Rank 0 and the others -----------------------------------------------------------

    def _collect(self, wait_s: float) -> None:
        """Waits until all ranks' parts are in the directory, or the time is up."""
        deadline = time.monotonic() + wait_s
        missing = set(range(1, self.config.size))
        store = self._store(wait_s) if missing and self.config.cross_size > 1 else None
        try:
            while missing and time.monotonic() < deadline:
                time.sleep(_LOOK_AGAIN_S)
                missing = {rank for rank in missing if not _has_ended(self._part(rank))}
                if store is not None:
                    missing = {rank for rank in missing if not self._receive(store, rank)}
        finally:
            if store is not None:
                store.close()

    def _receive(self, store: native.StoreClient, rank: int) -> bool:
        try:
            chunks = int(store.get(self._key(rank, "chunks"), timeout_s=_LOOK_AGAIN_S))
            with self._part(rank).open("wb") as file:
                for number in range(chunks):
                    file.write(store.get(self._key(rank, str(number)), timeout_s=_WAIT_S))
                    store.delete(self._key(rank, str(number)))
            store.delete(self._key(rank, "chunks"))
        except TfringError:
            return False
        return True

    def _send(self, wait_s: float) -> None:
        """Sends the part to rank 0, which can't see this host's files."""
        path = self._part(self.config.rank)
        with self._store(wait_s) as store, path.open("rb") as file:
            number = 0
            while data := file.read(_CHUNK):
                store.set(self._key(self.config.rank, str(number)), data)
                number += 1
            store.set(self._key(self.config.rank, "chunks"), str(number).encode())
        shutil.rmtree(self.directory, ignore_errors=True)

    def _store(self, wait_s: float) -> native.StoreClient:
        host, _, port = self.config.store.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        return native.StoreClient(host, int(port), secret=self.config.secret, timeout_s=wait_s)

    def _key(self, rank: int, what: str) -> str:
        return f"timeline/{self.directory.name}/{rank}/{what}"

    def _part(self, rank: int) -> Path:
        return part_path(self.directory, rank)


def _own_part(config: Config, target: Path) -> Path:
    # A directory of this job's own: what another one left is none of ours.
    job = hashlib.sha256(f"{config.store} {config.secret}".encode()).hexdigest()[:8]
    directory = parts_directory(target)
    if config.cross_rank > 0:  # a host that rank 0 may not see the files of
        directory = Path(tempfile.gettempdir()) / directory.name
    return part_path(directory.with_name(f"{directory.name}-{job}"), config.rank)


def _has_ended(path: Path) -> bool:
    try:
        return Part.open(path).ended()
    except (OSError, PartError):
        return False
