from __future__ import annotations

import pytest
import tensorflow as tf

from tfring.op_names import operation_name, order_handle


def names_of(function, *args) -> list[str]:
    """What operation_name gave while `function(record, ...)` was traced."""
    seen: list[str] = []

    def record(value, kind="allreduce", name=None):
        seen.append(operation_name(kind, name))
        return value

    function(record, *args)
    return seen


def nested(record) -> None:
    @tf.function
    def inner(x):
        return record(x)

    @tf.function
    def step(x):
        x = record(record(x), "broadcast")
        x = record(inner(x))
        x = tf.cond(x > 0, lambda: record(x), lambda: record(x))
        for _ in range(2):
            x = tf.while_loop(lambda x: x < 5, lambda x: [record(x) + 1], [x])[0]
        return record(x, name="mine")

    step(1)


def test_names_follow_the_structure_of_the_graph() -> None:
    expected = [
        "step/allreduce0",
        "step/broadcast0",
        "step/inner/allreduce0",
        "step/allreduce1",
        "step/true0/allreduce0",
        "step/false0/allreduce0",
        "step/while0/allreduce0",
        "step/while1/allreduce0",
        "mine",
    ]
    assert names_of(nested) == expected
    # Neither what this process traced before nor its number of layers has an influence.
    with tf.name_scope("other"):
        assert names_of(nested) == expected


def test_retracing_repeats_names() -> None:
    def retraced(record) -> None:
        step = tf.function(lambda x: record(x))
        step(tf.zeros(1))
        step(tf.zeros(2))

    first, second = names_of(retraced)
    assert first == second


def test_gradients_of_loops_have_names_of_their_own() -> None:
    def with_gradient(record) -> None:
        @tf.custom_gradient
        def operation(x):
            return record(x), lambda grad: record(grad)

        @tf.function
        def step(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, operation(y)), [0, x])
            return tape.gradient(y[1], x)

        step(tf.ones(2))

    assert names_of(with_gradient) == ["step/while0/allreduce0", "step/while_grad0/allreduce0"]


def test_eager_names_are_fixed() -> None:
    assert [operation_name("allreduce", None) for _ in range(2)] == ["allreduce"] * 2
    assert operation_name("allreduce", "mine") == "mine"


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a text or None"):
        operation_name("allreduce", "")


def test_data_pipelines_are_refused() -> None:
    def pipeline(record) -> None:
        tf.data.Dataset.range(3).map(lambda x: record(x))

    with pytest.raises(NotImplementedError, match=r"inside a tf\.data function"):
        names_of(pipeline)


def test_one_handle_per_name() -> None:
    handles = {}

    @tf.function
    def step():
        for name in ("a", "b", "a"):
            handles.setdefault(name, []).append(order_handle(name))

    step()
    assert handles["a"][0] is handles["a"][1]
    assert handles["a"][0] is not handles["b"][0]
    assert order_handle("a") is order_handle("b")  # eager: one is enough


def test_graphs_of_tensorflow_1_are_refused() -> None:
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="not in a graph of"):
        order_handle("mine")
