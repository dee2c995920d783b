"""Event files, read back by TensorBoard's own reader."""

from __future__ import annotations

from typing import Any

import pytest

from harness.scalars import scalars

EPOCHS, STEPS = 3, 6


def train(directory: str, update_freq: Any, at_once: int) -> dict[str, list[float]]:
    import time

    import keras
    import numpy as np

    import tfring

    class Slow(keras.callbacks.Callback):
        """Makes the last rank late for every step."""

        def on_train_batch_begin(self, batch, logs=None):
            if tfring.rank() == tfring.size() - 1:
                time.sleep(0.1)

    rank = tfring.rank()
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(250), keras.layers.Dense(1)])
    model.compile(
        tfring.DistributedOptimizer("sgd"), "mse", metrics=["mae"], steps_per_execution=at_once
    )
    x = np.full((4 * STEPS, 8), 1.0 + rank, np.float32)
    callbacks = [
        tfring.callbacks.BroadcastInitialVariables(),
        tfring.callbacks.TensorBoard(f"{directory}/{rank}", update_freq=update_freq),
        Slow(),
        tfring.callbacks.AverageMetrics(),
    ]
    return model.fit(
        *(x, x[:, 0]),
        batch_size=4,
        epochs=EPOCHS,
        validation_data=(x, x[:, 0]),
        callbacks=callbacks,
        verbose=0,
    ).history


@pytest.mark.parametrize(("update_freq", "at_once"), [("epoch", 1), (4, 1), (4, 3)])
def test_the_log_has_keras_scalars_and_ours(warm_ranks, ranks, tmp_path, update_freq, at_once):
    pytest.importorskip("tensorboard")
    histories = warm_ranks(train, str(tmp_path), update_freq, at_once)
    assert [path.name for path in tmp_path.iterdir()] == ["0"]  # only rank 0 writes
    assert len(list((tmp_path / "0" / "train").iterdir())) == 1
    tags = scalars(tmp_path / "0" / "train")
    validation = scalars(tmp_path / "0" / "validation")

    # Keras's own, of all ranks.
    for name in ("loss", "mae"):
        assert [value for _, value in tags[f"epoch_{name}"]] == pytest.approx(histories[0][name])
        expected = histories[0][f"val_{name}"]
        assert [value for _, value in validation[f"epoch_{name}"]] == pytest.approx(expected)

    names = ["step_time_s", "allreduce_time_s", "exposed_communication", "allreduce_mb"]
    names += ["allreduce_gb_per_s", *(f"wait_time_s/rank_{rank}" for rank in range(ranks))]
    by_name = {name: tags[f"tfring/{name}"] for name in names}
    for name, points in by_name.items():
        assert [step for step, _ in points] == list(range(EPOCHS)), name
        assert all(value >= 0 for _, value in points), name
    for epoch in range(EPOCHS):
        at = {name: points[epoch][1] for name, points in by_name.items()}
        assert 0 < at["step_time_s"] < 60
        assert at["exposed_communication"] <= 1
        if ranks == 1:
            assert at["allreduce_mb"] == at["allreduce_time_s"] == 0
            continue
        # 8*250 + 250 + 250 + 1 float32
        assert at["allreduce_mb"] == pytest.approx(2501 * 4 / 1e6)
        assert 0 < at["allreduce_time_s"] <= at["step_time_s"]
        assert at["allreduce_gb_per_s"] == pytest.approx(
            at["allreduce_mb"] / 1e3 / at["allreduce_time_s"], rel=1e-3
        )
        assert at["exposed_communication"] > 0

    # Who waits least is who is late; a busy machine may delay any other once.
    waits = [[v for _, v in by_name[f"wait_time_s/rank_{rank}"]] for rank in range(ranks)]
    assert ranks == 1 or any(last < first for first, last in zip(waits[0], waits[-1], strict=True))

    batch_tags = {tag for tag in tags if tag.startswith("tfring/batch_")}
    if update_freq == "epoch":
        assert not batch_tags
    else:
        assert len(batch_tags) == len(names)
        assert len(tags["tfring/batch_step_time_s"]) == EPOCHS * STEPS // 4
