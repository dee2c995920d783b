"""Commits on disk: a directory with the last two states of a training, each in one file.

A file is complete or not there: it is written under another name, the disk confirms that it
has it, then it is renamed. A checksum over all of it tells a file that was damaged later.

    8 bytes   magic, with the version of this layout
    8 bytes   length of the header, little endian
    header    pickled: meta (a dictionary) and, for each array, data type and shape
    arrays    their bytes, one after the other
    32 bytes  SHA-256 of all before

Headers are pickled, so a commit is as trustworthy as who can write to its directory.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import socket
import struct
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import cloudpickle
import ml_dtypes
import numpy as np

from tfring.config import Config
from tfring.errors import TfringError

_MAGIC = b"TFRINGC\x01"
_LENGTH = struct.Struct("<Q")
_DIGEST_BYTES = 32
_NAME = re.compile(r"^commit-(\d{12})\.tfring$")
_PIECE = 16 * 2**20
KEPT = 2


@dataclass(frozen=True)
class Commit:
    """A state of a training.

    Attributes:
        steps: Completed steps.
        meta: All that is not an array of numbers; can be pickled.
        arrays: Values of variables.
    """

    steps: int
    meta: dict[str, Any]
    arrays: Sequence[np.ndarray]


class DamagedCommitError(TfringError):
    """A file is no complete commit; the message says what is wrong with it."""


def write_commit(directory: Path, commit: Commit) -> Path:
    """Writes a commit and deletes all but the last two.

    Returns:
        The file.

    Raises:
        OSError: The directory can't be made or written to, or the disk is full. What was
            there before is as it was.
    """
    directory.mkdir(parents=True, exist_ok=True)
    target = directory / f"commit-{commit.steps:012d}.tfring"
    # Several processes may write one commit when a job is stopped.
    temporary = directory / f".writing-{socket.gethostname()}-{os.getpid()}"
    try:
        with temporary.open("wb") as file:
            _write(file, commit)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    _sync_directory(directory)
    for _, old in _listed(directory)[KEPT:]:
        old.unlink(missing_ok=True)
    return target


def read_commit(path: Path) -> Commit:
    """Reads a commit and checks all of it.

    Raises:
        DamagedCommitError: It is not complete, or not what was written.
        OSError: It can't be read.
    """
    size = path.stat().st_size
    least = len(_MAGIC) + _LENGTH.size + _DIGEST_BYTES
    with path.open("rb") as file:
        if size < least or file.read(len(_MAGIC)) != _MAGIC:
            raise DamagedCommitError(f"it does not begin as a commit does ({size} bytes)")
        (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
        if length > size - least:
            raise DamagedCommitError(f"it ends within its header ({size} bytes)")
        _check(file, size)
        file.seek(len(_MAGIC) + _LENGTH.size)
        steps, meta, described = cloudpickle.loads(file.read(length))
        return Commit(steps, meta, [_read_array(file, *one) for one in described])


def newest_steps(directory: Path) -> int | None:
    """Steps of the newest commit that is whole; None if there is none."""
    found = newest_commit(directory)
    return None if found is None else found.steps


def newest_commit(directory: Path) -> Commit | None:
    """The newest commit that is whole; warns of each that is not."""
    for _, path in _listed(directory):
        try:
            return read_commit(path)
        except (DamagedCommitError, OSError) as error:
            warnings.warn(
                f"commit {path} can't be used: {error}. The one before it is taken, if there is "
                "one",
                RuntimeWarning,
                stacklevel=2,
            )
    return None


def remove_commits(directory: Path) -> None:
    """Deletes the commits of a training that has ended, and the directory if it is empty."""
    for _, path in _listed(directory):
        path.unlink(missing_ok=True)
    for left in directory.glob(".writing-*"):
        left.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        directory.rmdir()


def _listed(directory: Path) -> list[tuple[int, Path]]:
    """Commits by their names, the newest first."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    found = [(int(match[1]), directory / name) for name in names if (match := _NAME.match(name))]
    return sorted(found, reverse=True)


def _write(file: BinaryIO, commit: Commit) -> None:
    digest = hashlib.sha256()

    def put(data: Any) -> None:
        digest.update(data)
        file.write(data)

    arrays = [np.ascontiguousarray(array) for array in commit.arrays]
    described = [(array.dtype.name, tuple(np.shape(array))) for array in commit.arrays]
    header = cloudpickle.dumps((commit.steps, commit.meta, described))
    put(_MAGIC + _LENGTH.pack(len(header)))
    put(header)
    for array in arrays:
        data = _bytes(array)
        for start in range(0, len(data), _PIECE):
            put(data[start : start + _PIECE])
    file.write(digest.digest())


def _check(file: BinaryIO, size: int) -> None:
    digest = hashlib.sha256()
    file.seek(0)
    left = size - _DIGEST_BYTES
    while left:
        piece = file.read(min(left, _PIECE))
        if not piece:
            raise DamagedCommitError("it became shorter while it was read")
        digest.update(piece)
        left -= len(piece)
    if file.read(_DIGEST_BYTES) != digest.digest():
        raise DamagedCommitError("its checksum is not that of its contents")


def _read_array(file: Any, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    array = np.empty(shape, _dtype(dtype))
    if array.size:
        file.readinto(_bytes(array))
    return array


def _bytes(array: np.ndarray) -> Any:
    return array.reshape(-1).view(np.uint8).data


def _dtype(name: str) -> np.dtype:
    # NumPy does not know bfloat16 and float8 by name.
    return np.dtype(getattr(ml_dtypes, name, name))


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def commit_directory(given: Any) -> Path | None:
    """Where commits go: as given, else as the setting says; None for nowhere."""
    path = Config.from_environment().commit_directory if given is None else os.fspath(given)
    return Path(path) if path else None
