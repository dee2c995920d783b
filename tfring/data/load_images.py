"""Loading a set of images, of whatever kind it is."""

from __future__ import annotations

from pathlib import Path

from tfring.data.digits import load_digits
from tfring.data.idx import is_idx_directory, load_idx
from tfring.data.image_folder import load_image_folder
from tfring.data.image_set import ImageSet


def load_images(source: str | Path, *, image_size: tuple[int, int] = (224, 224)) -> ImageSet:
    """Loads images by name or from a directory. All ranks call it.

    Args:
        source: "digits" (see `load_digits`), a directory with IDX files (see `load_idx`) or
            one with a directory for each class (see `load_image_folder`).
        image_size: Height and width to which files of an image folder are resized; the
            others keep their own.

    Raises:
        NotADirectoryError: `source` is neither "digits" nor a directory.
        Otherwise as the functions above.
    """
    if source == "digits":
        return load_digits()
    if not Path(source).is_dir():
        raise NotADirectoryError(
            f"{source}: expected 'digits', a directory with IDX files or an image folder"
        )
    if is_idx_directory(source):
        return load_idx(source)
    return load_image_folder(source, image_size=image_size)
