"""The ranks' parts of a timeline, on their way into one file.

Workers on the launcher's machine leave theirs beside the file. On other hosts they go to a
temporary directory, and when a worker has ended, however it ended, its agent sends what there is.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tfring.errors import LaunchError, TfringError
from tfring.launcher.output import Output, OutputClosed
from tfring.monitoring.timeline.merge import merge, part_path, parts_directory

_TIMELINE = "TFRING_TIMELINE"
_PART = "TFRING_TIMELINE_PART"
_CHUNK = 1 << 20


class LauncherParts:
    """The launcher's side.

    Args:
        target: The file for all ranks; "" for none, then nothing happens here.

    Raises:
        LaunchError: There is no room beside it.
    """

    def __init__(self, target: str) -> None:
        self._wanted = bool(target)
        self._target = Path(target or "none")
        self._directory = parts_directory(self._target)
        if not self._wanted:
            return
        try:
            if self._directory.exists():
                shutil.rmtree(self._directory)  # of a launcher that was killed
            self._directory.mkdir(parents=True)
        except OSError as error:
            raise LaunchError(f"--timeline {target}: {error.strerror}") from error

    def variables(self, rank: int, *, local: bool) -> dict[str, str]:
        """For the environment of a worker."""
        if not self._wanted:
            return {}
        part = str(part_path(self._directory, rank)) if local else ""
        return {_TIMELINE: str(self._target), _PART: part}

    def add(self, rank: int, data: bytes) -> None:
        """More of a part that an agent sends."""
        if not self._wanted:
            return
        try:
            with part_path(self._directory, rank).open("ab") as file:
                file.write(data)
        except OSError:
            pass  # a full disk must not end the job; what is missing will be named

    def finish(self, output: Output, size: int) -> None:
        """Writes the file, and says so.

        Args:
            output: Where to say it.
            size: Number of ranks.
        """
        if not self._wanted:
            return
        try:
            text = merge(self._directory, self._target, size=size).text()
        except TfringError as error:
            text = str(error)
        with contextlib.suppress(OutputClosed):
            output.say(text)


class AgentParts:
    """The side of an agent on another host."""

    def __init__(self) -> None:
        self._directory: Path | None = None

    def variables(self, rank: int, given: Mapping[str, str]) -> dict[str, str]:
        """What to add to a worker's variables: where its part goes.

        Args:
            rank: The worker's.
            given: Its variables as the launcher sent them.
        """
        if not given.get(_TIMELINE) or given.get(_PART):
            return {}
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="tfring-timeline-"))
        return {_PART: str(part_path(self._directory, rank))}

    def take(self, rank: int) -> Iterator[bytes]:
        """The part of a worker that has ended, piece by piece; then it is deleted."""
        if self._directory is None:
            return
        path = part_path(self._directory, rank)
        try:
            with path.open("rb") as file:
                while data := file.read(_CHUNK):
                    yield data
            path.unlink()
        except OSError:
            return  # it never began to record

    def clean_up(self) -> None:
        """Deletes what is left."""
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
