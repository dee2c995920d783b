"""Checkpoints of several ranks: one writes, all know whether it could."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


def train(path: str, options: dict[str, Any], epochs: int = 3, validate: bool = True) -> Any:
    import keras
    import numpy as np

    import tfring

    keras.utils.set_random_seed(tfring.rank())
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(64), keras.layers.Dense(1)])
    model.compile(tfring.DistributedOptimizer("adam"), "mse", metrics=["mae"])
    rng = np.random.default_rng(tfring.rank())
    x, y = rng.standard_normal((16, 3)), rng.standard_normal(16)
    checkpoint = tfring.callbacks.ModelCheckpoint(path, **options)
    callbacks = [
        tfring.callbacks.BroadcastInitialVariables(),
        tfring.callbacks.AverageMetrics(),
        checkpoint,
    ]
    model.fit(
        *(x, y),
        batch_size=4,
        epochs=epochs,
        validation_data=(x, y) if validate else None,
        callbacks=callbacks,
        verbose=0,
    )
    return model, checkpoint


def save_every_epoch(directory: str, options: dict[str, Any]) -> tuple[Any, ...]:
    import tfring
    from tfring.variables import weights_digest

    # A directory of its own for each rank shows who has written.
    own = os.path.join(directory, f"rank-{tfring.rank()}", "{epoch:02d}.keras")
    model, checkpoint = train(own, options)
    newest = os.path.join(directory, "rank-0", "03.keras")
    loaded = tfring.load_model(newest) if os.path.exists(newest) else None
    same = loaded is not None and weights_digest(loaded.weights) == weights_digest(model.weights)
    return same, checkpoint.best


@pytest.mark.parametrize(
    ("options", "files"),
    [
        ({}, ["01.keras", "02.keras", "03.keras"]),
        ({"keep": 2}, ["02.keras", "03.keras"]),
        ({"keep": 1}, ["03.keras"]),
    ],
)
def test_rank_0_writes_and_the_model_loads_again(warm_ranks, tmp_path, options, files) -> None:
    answers = warm_ranks(save_every_epoch, str(tmp_path), options)
    assert all(same for same, _ in answers)
    assert [path.name for path in tmp_path.iterdir()] == ["rank-0"]
    assert sorted(path.name for path in (tmp_path / "rank-0").iterdir()) == files


def save_the_best(directory: str) -> Any:
    path = os.path.join(directory, "best.weights.h5")
    options = {"save_best_only": True, "save_weights_only": True, "monitor": "val_loss"}
    _, checkpoint = train(path, options)
    return float(checkpoint.best)


def test_the_best_is_the_best_of_all(warm_ranks, tmp_path: Path) -> None:
    assert len(set(warm_ranks(save_the_best, str(tmp_path)))) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["best.weights.h5"]


def save_by_batches(directory: str) -> Any:
    """Logs of batches differ between ranks; rank 0 decides."""
    path = os.path.join(directory, "{epoch}-{batch}.keras")
    options = {"save_best_only": True, "monitor": "loss", "save_freq": 2, "mode": "min"}
    _, checkpoint = train(path, options, epochs=2)
    return float(checkpoint.best)


def test_saving_by_batches(warm_ranks, tmp_path: Path) -> None:
    assert len(set(warm_ranks(save_by_batches, str(tmp_path)))) == 1
    assert any(tmp_path.iterdir())


def save_where_it_fails(directory: str, kind: str) -> tuple[str, str]:
    from contextlib import nullcontext

    import tfring
    from harness.full_disk import full_disk

    path = os.path.join(directory, "model.keras")
    if kind == "no directory":
        Path(directory, "file").write_text("")
        path = os.path.join(directory, "file", "model.keras")
    full = kind == "full disk" and tfring.rank() == 0
    try:
        with full_disk(4096) if full else nullcontext():
            train(path, {}, epochs=1)
    except Exception as error:
        return type(error).__name__, str(error)
    return "no error", ""


@pytest.mark.parametrize("kind", ["full disk", "no directory"])
def test_a_file_that_can_not_be_written_is_an_error_everywhere(
    warm_ranks, tmp_path: Path, kind: str
) -> None:
    first, *others = warm_ranks(save_where_it_fails, str(tmp_path), kind)
    assert first[0] != "no error"
    for name, message in others:
        assert name == "TfringError"
        assert message.startswith(f"rank 0 could not save a checkpoint: {first[0]}: ")
    assert not list(tmp_path.glob("*.keras"))


def refuse() -> None:
    import tfring

    with pytest.raises(ValueError, match="keep: expected at least 1, received 0"):
        tfring.callbacks.ModelCheckpoint("a.keras", keep=0)
    with pytest.raises(ValueError, match=r"must end in"):
        tfring.callbacks.ModelCheckpoint("a.txt")


def test_mistakes_are_named(warm_ranks) -> None:
    warm_ranks(refuse)
