"""Image folders on several ranks: one list of files, checked together, read once each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def write_images(root: Path, classes: dict[str, int]) -> None:
    from PIL import Image

    number = 0
    for name, count in classes.items():
        (root / name).mkdir(parents=True)
        for index in range(count):
            number += 1
            Image.new("RGB", (9, 7), (number, 0, 0)).save(root / name / f"{index:02}.png")


def read(directory: str) -> tuple[Any, ...]:
    import warnings

    import numpy as np

    import tfring

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        images = tfring.data.load_images(directory, image_size=(7, 9))
    numbers = []
    for part, options in ((images.train, {}), (images.validation, {"remainder": "keep"})):
        own = tfring.data.shard(part, **options)
        batches = images.batches(own, 2, training=not options)
        reds = [np.round(x.numpy()[:, 0, 0, 0] * 255).astype(int) for x, _ in batches]
        numbers.append(np.concatenate(reds).tolist() if reds else [])
        assert len(numbers[-1]) == len(own)
    told = [str(w.message) for w in caught if "decoded" in str(w.message)]
    return [Path(path).name for path in images.skipped], numbers[0], numbers[1], told


def test_every_image_is_read_and_corrupt_ones_are_skipped_everywhere(
    warm_ranks, ranks: int, tmp_path: Path
) -> None:
    pytest.importorskip("PIL")
    write_images(tmp_path, {"a": 11, "b": 8})
    for number in (3, 8):
        (tmp_path / "a" / f"{number:02}.png").write_bytes(b"\x89PNG broken")
    by_rank = warm_ranks(read, str(tmp_path))
    assert {str(skipped) for skipped, *_ in by_rank} == {"['03.png', '08.png']"}
    train = [numbers for _, numbers, _, _ in by_rank]
    validation = [n for _, _, numbers, _ in by_rank for n in numbers]
    assert len({len(numbers) for numbers in train}) == 1
    good = sorted({*range(1, 20)} - {4, 9})
    assert sorted({n for numbers in train for n in numbers} | set(validation)) == good
    assert len(validation) == len(set(validation))
    told = [told for *_, told in by_rank]
    assert len(told[0]) == 1 and told[0][0].startswith(f"{tmp_path}: 2 of 19 images can't be")
    assert not any(told[1:])


def read_different(directory: str) -> str:
    import tfring
    from tfring.errors import MismatchError

    with pytest.raises(MismatchError) as caught:
        tfring.data.load_images(f"{directory}/{tfring.rank()}")
    return str(caught.value)


def test_ranks_that_see_different_files_are_told(warm_ranks, ranks: int, tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    if ranks < 2:
        pytest.skip("needs two ranks")
    for rank in range(ranks):
        write_images(tmp_path / str(rank), {"a": 2 + (rank == 1), "b": 2})
    for message in warm_ranks(read_different, str(tmp_path)):
        assert "do not see the same images" in message
        assert "4 on rank 0, 5 on rank 1" in message
