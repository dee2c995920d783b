"""Commits on disk: whole or not there, and damage is noticed."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from harness.full_disk import full_disk
from tfring.elastic.commit_files import (
    Commit,
    DamagedCommitError,
    newest_commit,
    read_commit,
    remove_commits,
    write_commit,
)
from tfring.elastic.commit_writer import CommitWriter


def commit(steps: int) -> Commit:
    arrays = [
        np.arange(6, dtype=np.float32).reshape(2, 3) * steps,
        np.array(steps, np.int64),
        np.zeros((0, 4), np.float16),
        np.ones(3, ml_dtypes.bfloat16),
        np.arange(8, dtype=np.int64).reshape(2, 4).T,
    ]
    return Commit(steps, {"epoch": steps // 10, "name": "é"}, arrays)


def files(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    path = write_commit(tmp_path / "new" / "directory", commit(12))
    found = read_commit(path)
    assert (found.steps, found.meta) == (12, {"epoch": 1, "name": "é"})
    for array, wanted in zip(found.arrays, commit(12).arrays, strict=True):
        assert array.dtype == wanted.dtype
        np.testing.assert_array_equal(array, wanted)


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    for steps in (1, 2, 10, 3):
        write_commit(tmp_path, commit(steps))
    assert files(tmp_path) == ["commit-000000000003.tfring", "commit-000000000010.tfring"]


@pytest.mark.parametrize("size", [0, 5, 20, 200, -1])
def test_a_truncated_commit_is_noticed(tmp_path: Path, size: int) -> None:
    write_commit(tmp_path, commit(1))
    path = write_commit(tmp_path, commit(2))
    with path.open("r+b") as file:
        file.truncate(size if size >= 0 else path.stat().st_size + size)
    with pytest.raises(DamagedCommitError):
        read_commit(path)
    with pytest.warns(RuntimeWarning, match=f"{path.name} can't be used"):
        found = newest_commit(tmp_path)
    assert found is not None
    assert found.steps == 1


def test_a_changed_bit_anywhere_is_noticed(tmp_path: Path) -> None:
    path = write_commit(tmp_path, commit(2))
    whole = path.read_bytes()
    for position in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[position] ^= 4
        path.write_bytes(damaged)
        with pytest.raises(DamagedCommitError):
            read_commit(path)


def test_no_commit(tmp_path: Path) -> None:
    assert newest_commit(tmp_path) is None
    assert newest_commit(tmp_path / "missing") is None


def test_removing_leaves_what_is_not_ours(tmp_path: Path) -> None:
    directory = tmp_path / "commits"
    write_commit(directory, commit(1))
    (directory / ".writing-host-1").write_text("left behind")
    (directory / "notes.txt").write_text("mine")
    remove_commits(directory)
    assert files(directory) == ["notes.txt"]
    (directory / "notes.txt").unlink()
    write_commit(directory, commit(1))
    remove_commits(directory)
    assert not directory.exists()
    remove_commits(directory)


def test_the_writer_writes_the_newest(tmp_path: Path) -> None:
    writer = CommitWriter(tmp_path)
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> Commit:
        begun.set()
        assert go_on.wait(10)
        return commit(1)

    writer.submit(slow)
    assert begun.wait(10)
    assert not writer.flush(0.01)
    for steps in (2, 3, 4):
        writer.submit(lambda steps=steps: commit(steps))
    go_on.set()
    writer.close(10)
    assert files(tmp_path) == ["commit-000000000001.tfring", "commit-000000000004.tfring"]
    assert not [t for t in threading.enumerate() if t.name == "tfring-commits"]
    # It can go on after that.
    writer.submit(lambda: commit(5))
    writer.close(10)
    assert files(tmp_path)[-1] == "commit-000000000005.tfring"


def failures(directory: Path, *commits: Commit) -> list[str]:
    """Warnings of a writer."""
    writer = CommitWriter(directory)
    with pytest.warns(RuntimeWarning) as caught:
        for one in commits:
            writer.submit(lambda one=one: one)
            assert writer.flush(10)
        writer.close(10)
    return [str(warning.message) for warning in caught]


def test_a_directory_that_can_not_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    messages = failures(tmp_path / "file", commit(1), commit(2))
    assert len(messages) == 1
    assert "training goes on" in messages[0]


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    write_commit(tmp_path, commit(1))
    big = Commit(2, {}, [np.zeros(2**20, np.uint8)])
    with full_disk(2**16):
        messages = failures(tmp_path, big)
    assert "OSError" in messages[0]
    assert files(tmp_path) == ["commit-000000000001.tfring"]


def test_a_writer_that_was_killed_leaves_the_old_commits(tmp_path: Path, monkeypatch: Any) -> None:
    write_commit(tmp_path, commit(1))

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_commit(tmp_path, commit(2))
    assert files(tmp_path) == ["commit-000000000001.tfring"]
