"""The examples as a user runs them, with little data and few epochs."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from harness.rank_pool import launcher_command

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LIMIT_S = 200

pytestmark = pytest.mark.timeout(2 * LIMIT_S)


def run(np: int, script: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    python = [sys.executable, str(EXAMPLES / script), *arguments]
    # One process needs no launcher.
    command = python if np == 1 else [*launcher_command(np), *python]
    return subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "TF_NUM_INTRAOP_THREADS": "2"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def succeed(np: int, script: str, *arguments: str, cwd: Path) -> str:
    result = run(np, script, *arguments, cwd=cwd)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def accuracy(output: str) -> float:
    (found,) = re.findall(r"Validation accuracy: ([\d.]+)%", output)
    return float(found)


def digests(output: str) -> list[str]:
    return re.findall(r"Weights of rank \d+: SHA-256 ([0-9a-f]{64})", output)


FLAGSHIP = "train_image_classifier.py"


def test_the_flagship_learns_the_digits(ranks: int, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    output = succeed(ranks, FLAGSHIP, "--epochs", "10", cwd=tmp_path)
    assert accuracy(output) >= 97
    assert len(digests(output)) == ranks and len(set(digests(output))) == 1
    assert "All ranks have bit-identical weights: yes" in output
    assert "tensorboard --logdir logs" in output
    # Only rank 0 reports: each epoch once.
    assert len(re.findall(r"val_accuracy: ", output)) == 10
    assert list((tmp_path / "logs" / "train").glob("events*"))


def test_one_process_needs_no_launcher(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    output = succeed(1, FLAGSHIP, "--epochs", "1", cwd=tmp_path)
    assert len(digests(output)) == 1


def test_resume_goes_on_where_it_was(ranks: int, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    options = ["--checkpoint-dir", "checkpoints", "--gradient-accumulation", "2"]
    first = succeed(ranks, FLAGSHIP, *options, "--epochs", "2", cwd=tmp_path)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == [
        *("epoch-001.keras", "epoch-002.keras"),
    ]
    output = succeed(ranks, FLAGSHIP, *options, "--epochs", "4", "--resume", cwd=tmp_path)
    assert "Going on after epoch 2, from checkpoints/epoch-002.keras" in output
    assert re.findall(r"Epoch (\d)/4", output) == ["3", "4"]
    assert len(set(digests(output))) == 1
    # Nothing left to do: the weights are those of the checkpoint.
    again = succeed(ranks, FLAGSHIP, *options, "--epochs", "4", "--resume", cwd=tmp_path)
    assert "Going on after epoch 4" in again
    assert digests(again) == digests(output) != digests(first)
    assert accuracy(again) == accuracy(output)


def write_idx(path: Path, shape: tuple[int, ...], content: bytes) -> None:
    header = bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape)
    path.write_bytes(header + content)


def test_idx_files_and_mixed_precision(ranks: int, tmp_path: Path) -> None:
    import numpy as np

    rng = np.random.default_rng(0)
    data = tmp_path / "data"
    data.mkdir()
    for part, count in (("train", 120), ("t10k", 30)):
        labels = rng.integers(0, 3, count).astype(np.uint8)
        images = rng.integers(0, 60, (count, 12, 12)).astype(np.uint8)
        images += (labels * 90)[:, None, None].astype(np.uint8)
        write_idx(data / f"{part}-images-idx3-ubyte", images.shape, images.tobytes())
        write_idx(data / f"{part}-labels-idx1-ubyte", labels.shape, labels.tobytes())
    options = ["--data", str(data), "--mixed-precision", "--flip", "--batch-size", "8"]
    output = succeed(ranks, FLAGSHIP, *options, "--epochs", "3", cwd=tmp_path)
    assert "data: 120 images for training, 30 for validation, 3 classes" in output
    assert accuracy(output) > 60
    assert len(set(digests(output))) == 1


def test_an_image_folder_with_a_corrupt_file_and_resnet50(ranks: int, tmp_path: Path) -> None:
    Image = pytest.importorskip("PIL.Image")
    data = tmp_path / "flowers"
    for name, colour in (("rose", (200, 0, 0)), ("lily", (0, 200, 0))):
        (data / name).mkdir(parents=True)
        for number in range(10):
            Image.new("RGB", (40, 30 + number), colour).save(data / name / f"{number}.jpg")
    (data / "rose" / "3.jpg").write_bytes(b"\xff\xd8\xff broken")
    options = ["--data", str(data), "--image-size", "32", "--model", "resnet50", "--flip"]
    result = run(ranks, FLAGSHIP, *options, "--epochs", "1", "--batch-size", "4", cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "flowers: 15 images for training, 4 for validation, 2 classes" in result.stdout
    assert len(set(digests(result.stdout))) == 1
    everything = result.stdout + result.stderr
    assert len(re.findall(r"1 of 20 images can't be decoded.*rose/3.jpg", everything)) == 1


def test_mistakes_are_named(ranks: int, tmp_path: Path) -> None:
    (tmp_path / "flowers" / "rose").mkdir(parents=True)
    cases = {
        ("--data", "nowhere"): "nowhere: expected 'digits', a directory with IDX files",
        ("--data", "flowers"): "no JPEG or PNG files for rose",
        ("--resume",): "--resume needs --checkpoint-dir",
    }
    for arguments, message in cases.items():
        result = run(ranks, FLAGSHIP, *arguments, cwd=tmp_path)
        assert result.returncode != 0
        assert message in result.stdout + result.stderr


def test_the_loop_of_ones_own(ranks: int, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    output = succeed(ranks, "custom_training_loop.py", "--epochs", "6", cwd=tmp_path)
    last = re.findall(r"Epoch 6: .*validation: loss [\d.]+, accuracy ([\d.]+)%", output)
    assert len(last) == 1 and float(last[0]) >= 95
    assert f"Bit-identical weights on all of {ranks} processes" in output
