"""Image folders: a directory with one directory of JPEG and PNG files for each class."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from tfring import engine, objects
from tfring.data.image_set import ImageSet
from tfring.data.partition import shard_indices
from tfring.errors import MismatchError

SUFFIXES = (".jpg", ".jpeg", ".png")
_TRAINING = ("train", "training")
_VALIDATION = ("validation", "val", "valid", "test")
_SHOWN = 5


@dataclass(frozen=True)
class ImageFolder:
    """The files of an image folder.

    Attributes:
        directory: Has a directory for each class.
        class_names: Their names, in order.
        paths: Files, relative to `directory`, in order of class and name.
        labels: The class of each, int64.
        ignored: How many files are there that are no JPEG or PNG by their name.
    """

    directory: Path
    class_names: tuple[str, ...]
    paths: tuple[str, ...]
    labels: np.ndarray
    ignored: int = 0

    @classmethod
    def scan(cls, directory: str | Path) -> ImageFolder:
        """Lists a folder. Hidden files and directories are left alone.

        Raises:
            NotADirectoryError: There is no such directory.
            ValueError: It has no directories, or some of them have no images.
        """
        root = Path(directory)
        if not root.is_dir():
            raise NotADirectoryError(f"{root} is no directory")
        classes = sorted(p.name for p in root.iterdir() if p.is_dir() and p.name[0] != ".")
        if not classes:
            raise ValueError(
                f"{root} has no directories; an image folder has one for each class, with JPEG "
                "or PNG files in it"
            )
        paths: list[str] = []
        labels: list[int] = []
        empty, ignored = [], 0
        for label, name in enumerate(classes):
            files = [p for p in (root / name).rglob("*") if p.is_file() and p.name[0] != "."]
            images = sorted(p for p in files if p.suffix.lower() in SUFFIXES)
            ignored += len(files) - len(images)
            if not images:
                empty.append(name)
            paths += [p.relative_to(root).as_posix() for p in images]
            labels += [label] * len(images)
        if empty:
            raise ValueError(
                f"{root}: no JPEG or PNG files for {_listed(empty)}. Every directory is a class; "
                "put images into it or remove it"
            )
        return cls(root, tuple(classes), tuple(paths), np.array(labels, np.int64), ignored)

    def split(self, fraction: float) -> tuple[ImageFolder, ImageFolder]:
        """Divides every class alike: a part for training and `fraction` for validation.

        Which files go where depends on their names only, not on chance. A class with a
        single image has it in the first part.
        """
        validation = np.zeros(len(self.paths), bool)
        for label in range(len(self.class_names)):
            members = np.flatnonzero(self.labels == label)
            keys = [hashlib.sha256(self.paths[i].encode()).digest() for i in members]
            order = sorted(range(len(members)), key=keys.__getitem__)
            wanted = max(1, round(fraction * len(members))) if len(members) > 1 else 0
            validation[members[order[:wanted]]] = True
        return self._subset(~validation), self._subset(validation)

    def without(self, unwanted: Sequence[str]) -> ImageFolder:
        """The same without some paths.

        Raises:
            ValueError: A class would have no image left.
        """
        gone = set(unwanted)
        rest = self._subset(np.array([path not in gone for path in self.paths], bool))
        missing = set(range(len(self.class_names))) - set(rest.labels.tolist())
        if missing:
            names = [self.class_names[label] for label in sorted(missing)]
            raise ValueError(
                f"{self.directory}: none of the images of {_listed(names)} can be decoded"
            )
        return rest

    def undecodable(self) -> list[str]:
        """Decodes every image and returns the paths of those for which that fails.

        The ranks share the work; every rank gets the whole list. Called on all of them.
        """
        own = shard_indices(len(self.paths), engine.rank(), engine.size(), "keep")

        def check(index: tf.Tensor, path: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            # Something of the image must come out, or TensorFlow would leave decoding out.
            return index, tf.size(decode_file(path))

        checked = tf.data.Dataset.from_tensor_slices((own, self._full_paths(own)))
        checked = checked.map(check, tf.data.AUTOTUNE).ignore_errors()
        good = {int(index) for index, _ in checked.as_numpy_iterator()}
        bad = [self.paths[index] for index in own if index not in good]
        return sorted(path for part in objects.allgather_object(bad) for path in part)

    def dataset(self) -> tf.data.Dataset:
        """Yields (full path, label)."""
        paths = self._full_paths(np.arange(len(self.paths)))
        return tf.data.Dataset.from_tensor_slices((paths, self.labels))

    def digest(self) -> str:
        """Equal for equal lists of files and classes."""
        text = "\n".join([*self.class_names, "", *self.paths])
        return hashlib.sha256(text.encode()).hexdigest()

    def _subset(self, chosen: np.ndarray) -> ImageFolder:
        paths = tuple(self.paths[i] for i in np.flatnonzero(chosen))
        return ImageFolder(self.directory, self.class_names, paths, self.labels[chosen])

    def _full_paths(self, indices: np.ndarray) -> np.ndarray:
        return np.array([str(self.directory / self.paths[i]) for i in indices], dtype=object)


def decode_file(path: tf.Tensor) -> tf.Tensor:
    """The image in a file: uint8, shape [height, width, 3]."""
    return tf.io.decode_image(tf.io.read_file(path), channels=3, expand_animations=False)


def load_image_folder(
    directory: str | Path,
    *,
    image_size: tuple[int, int] = (224, 224),
    validation_fraction: float = 0.2,
    verify: bool = True,
) -> ImageSet:
    """Loads a folder of images. All ranks call it; each sees the same files.

    The folder has a directory for each class, or `train` and `validation` (or `val`,
    `test`) with the same classes each. Images that can't be decoded are left out on all
    ranks before anything is divided among them, with a warning that counts and names them.

    Example:

    >>> images = tfring.data.load_image_folder("flowers", image_size=(180, 180))

    Args:
        directory: The folder.
        image_size: Height and width to which images are resized.
        validation_fraction: Share of every class for validation, where the folder itself
            makes no difference.
        verify: Decode every image once at the beginning, the ranks sharing the work. Without
            it a corrupt image ends the training when its turn comes.

    Raises:
        NotADirectoryError, ValueError: As `ImageFolder.scan`, or the classes for training and
            validation differ, or a class has no image that can be decoded.
        MismatchError: The ranks see different files.
    """
    root = Path(directory)
    own = _scan_parts(root)
    parts, skipped = [], []
    for part in own:
        _require_same_files(part)
        bad = part.undecodable() if verify else []
        parts.append(part.without(bad))
        skipped += [str(part.directory / path) for path in bad]
    if skipped and engine.rank() == 0:
        warnings.warn(
            f"{root}: {len(skipped)} of {sum(len(part.paths) for part in own)} images can't be "
            f"decoded and are skipped: {_listed(skipped)}",
            RuntimeWarning,
            stacklevel=2,
        )
    train, validation = parts if len(parts) == 2 else parts[0].split(validation_fraction)

    def decode(path: tf.Tensor) -> tf.Tensor:
        image = tf.image.resize(decode_file(path), image_size, antialias=True)
        return tf.cast(tf.clip_by_value(tf.round(image), 0, 255), tf.uint8)

    return ImageSet(
        name=root.name,
        class_names=train.class_names,
        image_shape=(*image_size, 3),
        train=train.dataset(),
        validation=validation.dataset(),
        decode=decode,
        skipped=tuple(skipped),
    )


def _scan_parts(root: Path) -> list[ImageFolder]:
    """The folder, or its parts for training and validation."""
    for training in _TRAINING:
        for validation in _VALIDATION:
            if (root / training).is_dir() and (root / validation).is_dir():
                parts = [ImageFolder.scan(root / training), ImageFolder.scan(root / validation)]
                first, second = (part.class_names for part in parts)
                if first != second:
                    odd = sorted(set(first) ^ set(second))
                    raise ValueError(
                        f"{root}: {training} and {validation} have different classes; only one "
                        f"of them has {_listed(odd)}"
                    )
                return parts
    return [ImageFolder.scan(root)]


def _require_same_files(folder: ImageFolder) -> None:
    everyone = objects.allgather_object((folder.digest(), len(folder.paths)))
    if len(set(everyone)) > 1:
        counts = ", ".join(f"{count} on rank {rank}" for rank, (_, count) in enumerate(everyone))
        raise MismatchError(
            f"the ranks do not see the same images below {folder.directory}: {counts}"
        )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
