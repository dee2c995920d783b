"""IDX, the format of MNIST, Fashion-MNIST and their like.

A file is a header and an array in row-major order: two zero bytes, one that tells the type,
one with the number of dimensions, then each dimension as a big-endian 32-bit number.
http://yann.lecun.com/exdb/mnist describes it.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np

from tfring.data.array_images import image_set_of_arrays
from tfring.data.image_set import ImageSet

_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_MAX_DIMENSIONS = 8
_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "validation": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
_FASHION = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)


def read_idx(path: str | Path) -> np.ndarray:
    """Reads an IDX file, compressed by gzip or not.

    Args:
        path: The file. Whether it is compressed is seen from its content.

    Returns:
        The array, in the machine's byte order.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no IDX file, or cut short or damaged.
    """
    path = Path(path)
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise ValueError(f"{path}: the compressed file is damaged: {error}") from error
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _TYPES:
        raise ValueError(
            f"{path}: no IDX file, which begins with 00 00 and a type; it begins with "
            f"{content[:4].hex(' ') or 'nothing'}"
        )
    count = content[3]
    start = 4 + 4 * count
    if not 0 < count <= _MAX_DIMENSIONS or len(content) < start:
        raise ValueError(f"{path}: impossible IDX header: {count} dimensions, {len(content)} bytes")
    shape = struct.unpack(f">{count}I", content[4:start])
    dtype = np.dtype(_TYPES[content[2]])
    expected = start + math.prod(shape) * dtype.itemsize
    if len(content) != expected:
        raise ValueError(
            f"{path}: {len(content)} bytes, but its header tells of {expected} (shape {shape}, "
            f"{dtype.name})"
        )
    array = np.frombuffer(content, dtype, offset=start).reshape(shape)
    return array.astype(dtype.newbyteorder("="))


def is_idx_directory(directory: str | Path) -> bool:
    """Whether a directory holds the images of an IDX set."""
    return _find(Path(directory), _FILES["train"][0]) is not None


def load_idx(directory: str | Path) -> ImageSet:
    """Loads a set like MNIST: four files, `train-images-idx3-ubyte` and so on.

    Args:
        directory: Has them, compressed by gzip (`.gz`) or not.

    Raises:
        FileNotFoundError: One is missing.
        ValueError: One is damaged, or images and labels don't fit together.
    """
    directory = Path(directory)
    parts = {}
    for part, names in _FILES.items():
        images, labels = (read_idx(_require(directory, name)) for name in names)
        if images.ndim != 3 or labels.ndim != 1:
            raise ValueError(
                f"{directory}: expected images of three dimensions and labels of one, received "
                f"shapes {images.shape} and {labels.shape}"
            )
        parts[part] = (images[..., np.newaxis], labels)
    classes = int(max(labels.max(initial=0) for _, labels in parts.values())) + 1
    fashion = "fashion" in str(directory.resolve()).lower() and classes == len(_FASHION)
    class_names = _FASHION if fashion else tuple(map(str, range(classes)))
    return image_set_of_arrays(
        directory.name, class_names, train=parts["train"], validation=parts["validation"]
    )


def _find(directory: Path, name: str) -> Path | None:
    for candidate in (directory / name, directory / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    return None


def _require(directory: Path, name: str) -> Path:
    found = _find(directory, name)
    if found is None:
        raise FileNotFoundError(f"{directory} has neither {name} nor {name}.gz")
    return found
