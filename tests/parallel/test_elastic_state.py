"""States on several ranks: whoever is behind gets what the others have, and only then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def make(gradient_accumulation_steps: int | None = None, seed: int = 1, **options: Any) -> Any:
    """A model, its optimizer not built; other weights for another seed."""
    import keras

    import tfring

    tfring.set_seed(seed)
    model = keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(8),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.1),
            keras.layers.Dense(4, dtype="float32"),
        ]
    )
    optimizer = keras.optimizers.Adam(0.01, gradient_accumulation_steps=gradient_accumulation_steps)
    model.compile(
        tfring.DistributedOptimizer(optimizer, bucket_bytes=64),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        **options,
    )
    return model


def steps(model: Any, count: int) -> None:
    import numpy as np
    import tensorflow as tf

    import tfring

    generator = np.random.default_rng(tfring.rank())
    x = generator.standard_normal((4 * count, 6)).astype("float32")
    y = (np.abs(x[:, 0] * 3) % 4).astype("int64")
    model.make_train_function()
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(4, drop_remainder=True)
    iterator = iter(data)
    for _ in range(count):
        model.train_function(iterator)


def sent(work: Any) -> int:
    from tfring import engine

    before = engine.counters()
    work()
    return (engine.counters() - before).sent_bytes


def behind_and_equal() -> Any:
    import numpy as np

    import tfring
    from tfring.elastic import KerasState
    from tfring.variables import assert_identical, training_state

    model = make()
    state = KerasState(model, epoch=0, note="none")
    state.sync()
    assert_identical(training_state(model), name="first")
    steps(model, 2)
    state.commit()
    steps(model, 1)
    # Nothing is sent when all are equal, and a rank's own averages stay.
    averages = [np.array(v) for v in model.non_trainable_weights]
    equal = sent(state.sync)
    for variable, value in zip(model.non_trainable_weights, averages, strict=True):
        np.testing.assert_array_equal(variable, value)
    state.note = f"rank {tfring.rank()}"
    if tfring.rank() == 0:
        state.restore()  # as if it had not completed the third step
        state.note = "behind"
        assert state.completed_steps == 2
    state.sync()
    assert_identical(training_state(model), name="then")
    return equal, state.completed_steps, state.note


def test_whoever_is_behind_gets_the_rest(warm_ranks: Any, ranks: int) -> None:
    for equal, completed, note in warm_ranks(behind_and_equal):
        assert equal < 4000
        assert (completed, note) == (3, "rank 1")


def newcomer(accumulate: int | None) -> Any:
    import keras
    import numpy as np

    import tfring
    import tfring.callbacks
    from tfring.elastic import KerasState
    from tfring.seed import seed_states
    from tfring.variables import assert_identical, training_state

    last = tfring.size() - 1
    model = make(accumulate)
    state = KerasState(model, epoch=3, words=["a"])
    state.sync()
    steps(model, 3)
    if tfring.rank() == last:  # a process that has just come
        model = make(accumulate, seed=7)
        state = KerasState(model, epoch=0, words=[])
        assert not model.optimizer.built
    state.sync()
    # The third step was the first of an update, which all redo.
    expected = 2 if accumulate else 3
    assert (state.completed_steps, state.epoch, state.words) == (expected, 3, ["a"])
    assert_identical(training_state(model), name="joined")
    steps(model, 4)
    assert state.completed_steps == expected + 4
    model.optimizer.finalize_variable_values(model.trainable_variables)
    own = {id(variable) for variable in model.non_trainable_weights}
    assert_identical([v for v in training_state(model) if id(v) not in own], name="later")
    return [np.array(keras.ops.convert_to_numpy(v)).tolist() for v in seed_states(model)]


@pytest.mark.parametrize("accumulate", [None, 2])
def test_a_newcomer_gets_everything(warm_ranks: Any, accumulate: int | None) -> None:
    seeds = warm_ranks(newcomer, accumulate)
    assert len({str(one) for one in seeds}) == len(seeds)


def resume(directory: str, phase: str) -> Any:
    import numpy as np

    import tfring
    from tfring.elastic import KerasState

    model = make(seed=1 if phase == "begin" else 5)
    # Only one rank finds the commits, as if each had a disk of its own.
    own = f"{directory}/{tfring.rank()}" if phase == "begin" else f"{directory}/{1 - tfring.rank()}"
    state = KerasState(model, epoch=0, directory=own)
    state.sync()
    if phase == "begin":
        steps(model, 3)
        state.epoch = 2
        state.commit()
        if tfring.rank() == 0:
            assert state.save_last() is not None
    result = state.completed_steps, state.epoch, float(np.sum(model.get_weights()[0]))
    if phase == "end":
        state.finished()
    return result


def test_a_new_start_resumes_from_disk(warm_ranks: Any, tmp_path: Path) -> None:
    before = warm_ranks(resume, str(tmp_path), "begin", np=2)
    after = warm_ranks(resume, str(tmp_path), "end", np=2)
    assert after[0] == after[1] == before[0]
    assert after[0][:2] == (3, 2)


def lost_peer(options: dict[str, Any]) -> Any:
    """The last rank leaves before the third step; the others' is undone."""
    import keras
    import numpy as np

    import tfring
    from tfring import engine
    from tfring.elastic import KerasState

    model = make(**options)
    state = KerasState(model)
    state.sync()
    steps(model, 2)
    before = [np.array(keras.ops.convert_to_numpy(v)) for v in model.variables]
    if tfring.rank() == tfring.size() - 1:
        engine.shutdown()
        return None
    with pytest.raises(Exception, match="rank"):
        steps(model, 1)
    state.recover()
    for variable, value in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable, value, err_msg=variable.path)
    return state.completed_steps


@pytest.mark.parametrize(
    "options",
    [{}, {"jit_compile": True}, {"run_eagerly": True}],
    ids=str,
)
def test_a_step_without_a_peer_changes_nothing(warm_ranks: Any, options: dict[str, Any]) -> None:
    *survivors, gone = warm_ranks(lost_peer, options)
    assert gone is None
    assert set(survivors) == {2}


def entered_again() -> Any:
    """fit, twice, with the callbacks that synchronise."""
    import keras
    import numpy as np

    import tfring
    import tfring.callbacks
    from tfring.elastic import KerasState

    class Lost(Exception):
        pass

    class Lose(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if state.completed_steps == 5 and not lost:
                lost.append(1)
                raise Lost

    lost: list[int] = []
    model = make()
    state = KerasState(model, epoch=0, batch=0)
    x = np.random.default_rng(tfring.rank()).standard_normal((12, 6)).astype("float32")
    y = np.arange(12) % 4
    traffic = []
    begin = tfring.callbacks.BroadcastInitialVariables()
    original = begin.on_train_begin
    begin.on_train_begin = lambda logs=None: traffic.append(sent(lambda: original(logs)))
    for _ in range(2):
        state.sync()
        first = 4 * state.batch
        try:
            model.fit(
                x[first:],
                y[first:],
                batch_size=4,
                epochs=2 if not lost else state.epoch + 1,
                initial_epoch=state.epoch,
                shuffle=False,
                verbose=0,
                callbacks=[begin, tfring.callbacks.AverageMetrics(), Lose()],
            )
        except Lost:
            state.recover()
    assert "BroadcastInitialVariables" not in repr(model.train_function)
    return model.history.history["loss"], traffic, state.completed_steps


def test_fit_is_entered_again_without_broadcasting(warm_ranks: Any) -> None:
    results = warm_ranks(entered_again)
    losses = [loss for loss, _, _ in results]
    assert len(losses[0]) == 2
    assert all(loss == losses[0] for loss in losses)
    for _, traffic, completed in results:
        assert len(traffic) == 2
        assert max(traffic) < 2000
        assert completed == 6
