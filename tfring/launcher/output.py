"""Workers' output on its way to the terminal, a pipe or files: whole lines, each with its rank.

A progress bar redraws its line: carriage returns (and backspaces, as Keras has it) start it
anew. A terminal shows the redrawing in its last line; elsewhere only what was drawn last
before the line ended is written.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from tfring.errors import LaunchError

# A line without end is cut here.
_LONGEST_LINE = 1 << 16
_TAIL_LINES = 20
# At most this much can be written to a pipe that select calls writable, without blocking.
_PIPE_BUF = select.PIPE_BUF
_GIVE_UP_S = 2.0
_ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]")


def last_drawn(line: bytes) -> bytes:
    """What a line shows after its redrawings."""
    for segment in reversed(line.split(b"\r")):
        text = segment.rstrip(b"\b")
        if text:
            return text
    return b""


def clip(line: bytes, columns: int) -> bytes:
    """The beginning of a line that fits into one row; escape sequences take no room."""
    shown, parts, at = 0, [], 0
    text = line.decode("utf-8", "replace")
    escapes = {match.start(): match.end() for match in re.finditer(_ESCAPE.pattern.decode(), text)}
    while at < len(text):
        if at in escapes:
            parts.append(text[at : escapes[at]])
            at = escapes[at]
            continue
        if shown < columns:
            parts.append(text[at])
            shown += 1
        at += 1
    return "".join(parts).encode()


class LineAssembler:
    """Cuts one stream of one worker into lines."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes, without their ends."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if b"\r" in self._rest:
            # Forget redrawings, or an hour of them piles up.
            before, _, after = self._rest.rpartition(b"\r")
            self._rest = last_drawn(before) + b"\r" + after
        if len(self._rest) > _LONGEST_LINE:
            lines.append(self._rest)
            self._rest = b""
        return [last_drawn(line) for line in lines]

    @property
    def redrawn(self) -> bytes | None:
        """The progress bar in the unfinished line, if it is one."""
        return last_drawn(self._rest) or None if b"\r" in self._rest else None

    def finish(self) -> list[bytes]:
        """The last line, if it lacks its end."""
        rest, self._rest = last_drawn(self._rest), b""
        return [rest] if rest else []


class OutputClosed(Exception):
    """Nobody reads the launcher's output any more."""


class Console:
    """The launcher's own standard output or standard error.

    Args:
        descriptor: Where to write.
        stopping: Says whether the job is being ended; then a reader that does not read
            holds nobody up.
    """

    def __init__(self, descriptor: int, stopping: Callable[[], bool] = lambda: False) -> None:
        self._descriptor = descriptor
        self._stopping = stopping
        self._terminal = os.isatty(descriptor)
        self._status = b""
        self._given_up = False

    def line(self, text: bytes) -> None:
        """Writes a line."""
        if self._status:
            self._write(b"\r\x1b[K" + text + b"\n" + self._status)
        else:
            self._write(text + b"\n")

    def status(self, text: bytes) -> None:
        """Shows a line that will be redrawn; b"" removes it. Terminals only."""
        if not self._terminal or text == self._status:
            return
        if text:
            text = clip(text, shutil.get_terminal_size().columns - 1)
        self._write((b"\r\x1b[K" if self._status else b"") + text)
        self._status = text

    def take_status(self) -> bytes:
        """Removes the line that is being redrawn and returns it."""
        taken = self._status
        self.status(b"")
        return taken

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        stopping_since: float | None = None
        while view and not self._given_up:
            if not select.select([], [self._descriptor], [], 0.5)[1]:
                if self._stopping():
                    stopping_since = stopping_since or time.monotonic()
                    self._given_up = time.monotonic() - stopping_since > _GIVE_UP_S
                continue
            try:
                view = view[os.write(self._descriptor, view[:_PIPE_BUF]) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise OutputClosed(str(error)) from error


class Output:
    """Where the output of all workers goes.

    Args:
        prefix: Begin each line with `[rank]`.
        timestamp: Put the time before each line.
        directory: Also write each worker's bytes, unchanged, to `rank-N.log` there.
        stopping: See Console.

    Raises:
        LaunchError: The directory cannot be made.
    """

    def __init__(
        self,
        *,
        prefix: bool = True,
        timestamp: bool = False,
        directory: Path | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._prefix = prefix
        self._timestamp = timestamp
        self._directory = directory
        self._consoles = {False: Console(1, stopping), True: Console(2, stopping)}
        self._assemblers: dict[tuple[int, bool], LineAssembler] = {}
        self._tails: dict[int, deque[bytes]] = {}
        self._files: dict[int, BinaryIO] = {}
        self._file_trouble = False
        self._bar_of: tuple[int, bool] | None = None
        if directory is not None:
            try:
                directory.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise LaunchError(f"--output-dir {directory}: {error.strerror}") from error

    def write(self, rank: int, data: bytes, *, is_error: bool) -> None:
        """Takes what a worker wrote.

        Raises:
            OutputClosed: Nobody reads it.
        """
        self._keep(rank, data)
        assembler = self._assemblers.setdefault((rank, is_error), LineAssembler())
        console = self._consoles[is_error]
        lines = assembler.feed(data)
        if lines:
            self._remove_bar(rank, is_error)
        for line in lines:
            self._line(rank, line, console)
        redrawn = assembler.redrawn
        if redrawn:
            self._bar_of = (rank, is_error)
            console.status(self._decorated(rank, redrawn))

    def finish(self, rank: int) -> None:
        """A worker has ended: writes lines that lack their end, closes its file."""
        for is_error, console in self._consoles.items():
            assembler = self._assemblers.pop((rank, is_error), None)
            if assembler is not None:
                self._remove_bar(rank, is_error)
                for line in assembler.finish():
                    self._line(rank, line, console)
        file = self._files.pop(rank, None)
        if file is not None:
            file.close()

    def tail(self, rank: int) -> list[str]:
        """The last lines that a worker wrote."""
        return [line.decode("utf-8", "replace") for line in self._tails.get(rank, ())]

    def say(self, text: str) -> None:
        """Writes a message of the launcher itself to standard error."""
        for line in text.splitlines():
            self._put(f"tfringrun: {line}".encode(), self._consoles[True])

    def _line(self, rank: int, line: bytes, console: Console) -> None:
        self._tails.setdefault(rank, deque(maxlen=_TAIL_LINES)).append(line)
        self._put(self._decorated(rank, line), console)

    def _remove_bar(self, rank: int, is_error: bool) -> None:
        if self._bar_of == (rank, is_error):
            self._bar_of = None
            self._consoles[is_error].status(b"")

    def _put(self, line: bytes, console: Console) -> None:
        # Both may be the same terminal: the other's bar must not begin this line.
        others = [other for other in self._consoles.values() if other is not console]
        bars = [other.take_status() for other in others]
        console.line(line)
        for other, bar in zip(others, bars, strict=True):
            other.status(bar)

    def _decorated(self, rank: int, line: bytes) -> bytes:
        parts = []
        if self._prefix:
            parts.append(f"[{rank}]".encode())
        if self._timestamp:
            now = time.time()
            clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
            parts.append(f"{clock}.{int(now % 1 * 1000):03d}".encode())
        return b" ".join([*parts, line]) if line or not parts else b" ".join(parts)

    def _keep(self, rank: int, data: bytes) -> None:
        if self._directory is None or self._file_trouble:
            return
        try:
            if rank not in self._files:
                path = self._directory / f"rank-{rank}.log"
                # Unbuffered: what a worker wrote is there even if the launcher is killed.
                self._files[rank] = path.open("wb", buffering=0)
            view = memoryview(data)
            while view:
                view = view[self._files[rank].write(view) :]
        except OSError as error:
            # A full disk must not end a training run; its output is on the console still.
            self._file_trouble = True
            self.say(f"--output-dir {self._directory}: {error.strerror}; no longer writing there")
