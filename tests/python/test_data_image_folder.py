"""Image folders: real files, good and bad."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tfring
from tfring.config import Config
from tfring.data import ImageFolder, load_image_folder, load_images

Image = pytest.importorskip("PIL.Image")


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    tfring.init(Config())
    yield
    tfring.shutdown()


def write_folder(root: Path, classes: dict[str, int], suffix: str = ".jpg") -> Path:
    """Directories with images of one colour each: red grows with the class, green by file."""
    for label, (name, count) in enumerate(classes.items()):
        (root / name).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            colour = (label * 80, number * 10, 0)
            Image.new("RGB", (20 + number, 10), colour).save(root / name / f"{number:02}{suffix}")
    return root


def damage(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 3])


def test_scan_lists_classes_and_images_and_ignores_the_rest(tmp_path: Path) -> None:
    root = write_folder(tmp_path, {"dog": 2, "cat": 1}, ".JPG")
    Image.new("RGB", (3, 3)).save(root / "cat" / "b.png")
    (root / "cat" / "notes.txt").write_text("not an image")
    (root / "cat" / ".hidden.jpg").write_text("not an image")
    (root / ".cache").mkdir()
    (root / "README").write_text("not a class")
    (root / "dog" / "puppies").mkdir()
    Image.new("RGB", (3, 3)).save(root / "dog" / "puppies" / "c.jpeg")
    folder = ImageFolder.scan(root)
    assert folder.class_names == ("cat", "dog")
    assert folder.paths == (
        *("cat/00.JPG", "cat/b.png"),
        *("dog/00.JPG", "dog/01.JPG", "dog/puppies/c.jpeg"),
    )
    assert folder.labels.tolist() == [0, 0, 1, 1, 1]
    assert folder.ignored == 1


def test_an_empty_class_is_an_error_that_names_it(tmp_path: Path) -> None:
    root = write_folder(tmp_path, {"cat": 2, "dog": 0, "emu": 0})
    (root / "emu" / "notes.txt").write_text("not an image")
    with pytest.raises(ValueError, match="no JPEG or PNG files for dog, emu"):
        load_images(root)
    (root / "dog").rmdir()
    shutil.rmtree(root / "emu")
    assert load_images(root).class_names == ("cat",)


def test_what_is_no_image_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match=r"neither|expected 'digits'"):
        load_images(tmp_path / "none")
    with pytest.raises(NotADirectoryError, match="is no directory"):
        load_image_folder(tmp_path / "none")
    Image.new("RGB", (3, 3)).save(tmp_path / "a.png")
    with pytest.raises(ValueError, match="has no directories"):
        load_image_folder(tmp_path)


def test_split_is_stratified_stable_and_complete(tmp_path: Path) -> None:
    folder = ImageFolder.scan(write_folder(tmp_path, {"a": 10, "b": 5, "c": 1}))
    train, validation = folder.split(0.2)
    assert sorted(train.paths + validation.paths) == sorted(folder.paths)
    assert np.bincount(train.labels).tolist() == [8, 4, 1]
    assert np.bincount(validation.labels, minlength=3).tolist() == [2, 1, 0]
    assert folder.split(0.2)[1].paths == validation.paths


def test_images_are_decoded_resized_and_labelled(tmp_path: Path) -> None:
    images = load_image_folder(write_folder(tmp_path, {"a": 5, "b": 5}), image_size=(8, 12))
    assert images.image_shape == (8, 12, 3)
    assert (len(images.train), len(images.validation)) == (8, 2)
    for x, y in images.batches(images.train, 3, training=True):
        assert x.shape[1:] == (8, 12, 3) and x.dtype == "float32"
        red = x.numpy()[:, :, :, 0].mean(axis=(1, 2)) * 255
        np.testing.assert_allclose(red, y.numpy() * 80, atol=3)


def test_png_grey_and_transparent_images_have_three_channels(tmp_path: Path) -> None:
    root = write_folder(tmp_path, {"a": 2, "b": 2}, ".png")
    Image.new("L", (9, 9), 50).save(root / "a" / "grey.png")
    Image.new("RGBA", (9, 9), (1, 2, 3, 100)).save(root / "a" / "transparent.png")
    Image.new("L", (9, 9), 50).save(root / "b" / "grey.jpg")
    images = load_image_folder(root, image_size=(4, 4))
    assert images.skipped == ()
    parts = [images.train, images.validation]
    shapes = [x.shape for part in parts for x, _ in images.batches(part, 1)]
    assert shapes == [(1, 4, 4, 3)] * 7


def test_corrupt_images_are_skipped_counted_and_named(tmp_path: Path) -> None:
    root = write_folder(tmp_path, {"a": 6, "b": 6})
    damage(root / "a" / "01.jpg")
    (root / "b" / "02.jpg").write_text("this is text")
    (root / "b" / "03.jpg").write_bytes(b"")
    with pytest.warns(RuntimeWarning, match="3 of 12 images can't be decoded and are skipped: "):
        images = load_image_folder(root, image_size=(4, 4))
    assert [Path(path).name for path in images.skipped] == ["01.jpg", "02.jpg", "03.jpg"]
    assert len(images.train) + len(images.validation) == 9
    read = sum(
        len(y) for part in (images.train, images.validation) for _, y in images.batches(part, 4)
    )
    assert read == 9


def test_a_class_without_a_good_image_is_an_error(tmp_path: Path) -> None:
    root = write_folder(tmp_path, {"a": 3, "b": 1})
    damage(root / "b" / "00.jpg")
    with pytest.raises(ValueError, match="none of the images of b can be decoded"):
        load_image_folder(root)


def test_parts_for_training_and_validation(tmp_path: Path) -> None:
    write_folder(tmp_path / "train", {"a": 3, "b": 2})
    write_folder(tmp_path / "val", {"a": 1, "b": 1})
    images = load_image_folder(tmp_path, image_size=(4, 4))
    assert images.class_names == ("a", "b")
    assert (len(images.train), len(images.validation)) == (5, 2)
    write_folder(tmp_path / "val", {"c": 1})
    with pytest.raises(ValueError, match=r"train and val have different classes; .* has c"):
        load_image_folder(tmp_path)
