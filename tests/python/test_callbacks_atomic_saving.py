"""Either the whole new file or the old one."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest

from harness.full_disk import full_disk
from tfring.callbacks.atomic_saving import AtomicSaving


def model_of(value: float, units: int = 2) -> keras.Model:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(units)])
    model.set_weights([np.full(weight.shape, value) for weight in model.get_weights()])
    return model


def test_saves_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "model.keras"
    for value in (1.0, 2.0):
        AtomicSaving(model_of(value)).save(path)
        assert keras.models.load_model(path).get_weights()[0][0, 0] == value
        assert list(tmp_path.iterdir()) == [path]
    weights = tmp_path / "model.weights.h5"
    AtomicSaving(model_of(3.0)).save_weights(weights, overwrite=True)
    model = model_of(0.0)
    model.load_weights(weights)
    assert model.get_weights()[0][0, 0] == 3.0
    assert sorted(tmp_path.iterdir()) == [path, weights]


def test_everything_else_is_the_models_own() -> None:
    model = model_of(1.0)
    assert AtomicSaving(model).layers is model.layers or AtomicSaving(model).name == model.name


@pytest.mark.parametrize("suffix", [".keras", ".weights.h5"])
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"model{suffix}"

    def save(model: keras.Model) -> None:
        saving = AtomicSaving(model)
        (saving.save if suffix == ".keras" else saving.save_weights)(path)

    save(model_of(1.0))
    content = path.read_bytes()
    # OSError, or what h5py makes of it.
    with pytest.raises(Exception), full_disk(64 * 1024):  # noqa: B017
        save(model_of(2.0, units=50_000))
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.keras").mkdir()
    with pytest.raises(IsADirectoryError, match=r"model.keras is a directory"):
        AtomicSaving(model_of(1.0)).save(tmp_path / "model.keras")
