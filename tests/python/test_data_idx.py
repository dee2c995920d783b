"""IDX files: what is read, and what is refused."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from tfring.data import load_idx, load_images, read_idx

CODES = {"u1": 8, "i1": 9, ">i2": 11, ">i4": 12, ">f4": 13, ">f8": 14}


def encode(array: np.ndarray, code: str = "u1") -> bytes:
    header = bytes([0, 0, CODES[code], array.ndim])
    return header + struct.pack(f">{array.ndim}I", *array.shape) + array.astype(code).tobytes()


def write_set(directory: Path, *, compress: bool = False, **changes: bytes) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    images = np.arange(6 * 4 * 5, dtype=np.uint8).reshape(6, 4, 5)
    labels = np.array([0, 1, 2, 0, 1, 2], np.uint8)
    contents = {
        "train-images-idx3-ubyte": encode(images),
        "train-labels-idx1-ubyte": encode(labels),
        "t10k-images-idx3-ubyte": encode(images[:2]),
        "t10k-labels-idx1-ubyte": encode(labels[:2]),
    }
    contents |= {name.replace("_", "-"): content for name, content in changes.items()}
    for name, content in contents.items():
        if compress:
            (directory / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (directory / name).write_bytes(content)
    return directory


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("compress", [False, True])
def test_every_type_and_shape(tmp_path: Path, code: str, compress: bool) -> None:
    path = tmp_path / "file"
    for shape in [(7,), (2, 3), (2, 3, 4), (0, 5)]:
        array = np.arange(np.prod(shape)).reshape(shape).astype(code)
        content = encode(array, code)
        path.write_bytes(gzip.compress(content) if compress else content)
        read = read_idx(path)
        assert read.shape == shape
        assert read.dtype == np.dtype(code).newbyteorder("=")
        assert (read == array).all()


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    good = encode(np.arange(12).reshape(3, 4))
    cases = {
        b"": "begins with nothing",
        b"\x89PNG....": "begins with 89 50 4e 47",
        b"\0\0\x07\1" + good[4:]: "no IDX file",
        b"\0\0\x08\0": "impossible IDX header: 0 dimensions",
        b"\0\0\x08\xff" + good: "impossible IDX header: 255 dimensions",
        good[:6]: "impossible IDX header",
        good[:-1]: r"23 bytes, but its header tells of 24 \(shape \(3, 4\), uint8\)",
        good + b"x": "25 bytes, but its header tells of 24",
        gzip.compress(good)[:-5]: "compressed file is damaged",
        gzip.compress(good)[:-8] + bytes(8): "compressed file is damaged",
    }
    for content, message in cases.items():
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"file: .*{message}"):
            read_idx(path)
    with pytest.raises(FileNotFoundError):
        read_idx(tmp_path / "none")


@pytest.mark.parametrize("compress", [False, True])
def test_a_whole_set(tmp_path: Path, compress: bool) -> None:
    images = load_images(write_set(tmp_path / "small", compress=compress))
    assert images.name == "small"
    assert images.class_names == ("0", "1", "2")
    assert images.image_shape == (4, 5, 1)
    assert (len(images.train), len(images.validation)) == (6, 2)
    x, y = next(iter(images.batches(images.train, 6)))
    assert x.shape == (6, 4, 5, 1) and y.numpy().tolist() == [0, 1, 2, 0, 1, 2]
    assert float(x[0, 0, 1, 0]) == pytest.approx(1 / 255)


def test_fashion_mnist_has_its_names(tmp_path: Path) -> None:
    labels = encode(np.arange(10, dtype=np.uint8).repeat(2)[:6])
    labels = encode(np.array([9, 1, 2, 3, 4, 5], np.uint8))
    images = load_idx(write_set(tmp_path / "fashion-mnist", train_labels_idx1_ubyte=labels))
    assert images.class_names[9] == "Ankle boot"


def test_sets_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    short = encode(np.zeros(5, np.uint8))
    with pytest.raises(ValueError, match=r"6 images, but labels of shape \(5,\)"):
        load_idx(write_set(tmp_path / "a", train_labels_idx1_ubyte=short))
    flat = encode(np.zeros((6, 20), np.uint8))
    with pytest.raises(ValueError, match="images of three dimensions"):
        load_idx(write_set(tmp_path / "b", train_images_idx3_ubyte=flat))
    other = encode(np.zeros((2, 8, 8), np.uint8))
    with pytest.raises(ValueError, match=r"those for validation \(8, 8, 1\)"):
        load_idx(write_set(tmp_path / "c", t10k_images_idx3_ubyte=other))
    (write_set(tmp_path / "d") / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(FileNotFoundError, match=r"neither t10k-labels-idx1-ubyte nor .*gz"):
        load_idx(tmp_path / "d")
