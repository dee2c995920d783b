"""What the callbacks need of Keras's private parts is there, and means what they think."""

from __future__ import annotations

import keras
import numpy as np


def compiled() -> keras.Model:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
    return model


X, Y = np.ones((6, 2)), np.ones(6)


def test_one_method_makes_the_logs_of_an_epoch_and_of_an_evaluation() -> None:
    model = compiled()
    own = type(model)._get_metrics_result_or_logs
    calls = []

    def logs_of(logs):
        calls.append(set(logs))
        return dict.fromkeys(own(model, logs), 7.0)

    model.__dict__["_get_metrics_result_or_logs"] = logs_of
    history = model.fit(X, Y, batch_size=2, epochs=2, validation_data=(X, Y), verbose=0).history
    assert calls == [{"loss", "mae"}] * 4
    assert history == {name: [7.0] * 2 for name in ("loss", "mae", "val_loss", "val_mae")}
    assert model.evaluate(X, Y, verbose=0) == [7.0, 7.0]


def test_the_train_function_may_be_replaced_and_ends_an_epoch_by_stop_iteration() -> None:
    model = compiled()
    taken = []

    class Replace(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            self.original = model.train_function
            model.train_function = self.step

        def step(self, iterator):
            if len(taken) % 3 == 2:
                taken.append("end")
                raise StopIteration
            taken.append(iterator.element_spec[0].shape[-1])
            return self.original(iterator)

        def on_train_end(self, logs=None):
            model.train_function = self.original

    model.fit(X, Y, batch_size=1, epochs=2, callbacks=[Replace()], verbose=0)
    assert taken == [2, 2, "end"] * 2
    assert int(np.asarray(model.optimizer.iterations)) == 4


def test_callbacks_share_their_parameters() -> None:
    seen = []

    class First(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            self.params["steps"] = 99

    class Second(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            seen.append(self.params["steps"])

    compiled().fit(X, Y, batch_size=2, callbacks=[Second(), First()], verbose=0)
    assert seen == [99]


def test_checkpoints_are_saved_in_one_method(tmp_path) -> None:
    calls = []

    class Checkpoint(keras.callbacks.ModelCheckpoint):
        def _save_model(self, epoch, batch, logs):
            calls.append((epoch, batch))
            super()._save_model(epoch, batch, logs)
            assert self._get_file_path(epoch, batch, logs) == str(tmp_path / f"{epoch + 1}.keras")

    for frequency in ("epoch", 2):
        checkpoint = Checkpoint(str(tmp_path / "{epoch}.keras"), save_freq=frequency)
        compiled().fit(X, Y, batch_size=2, epochs=2, callbacks=[checkpoint], verbose=0)
    assert calls == [(0, None), (1, None), (0, 1), (1, 0), (1, 2)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.keras", "2.keras"]


def test_tensorboard_has_a_writer_for_training(tmp_path) -> None:
    board = keras.callbacks.TensorBoard(tmp_path)
    board.set_model(compiled())
    with board._train_writer.as_default(), board.summary.record_if(True):
        board.summary.scalar("a", 1.0, step=0)
    board._train_writer.close()
    assert len(list((tmp_path / "train").iterdir())) == 1
