"""Operations with a single rank: what users get, and the op itself made to run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfring
from tfring import ops
from tfring.op_inputs import DTYPES

FLOATS = [dtype for dtype in DTYPES if dtype.is_floating]


@pytest.fixture(autouse=True)
def initialized() -> Iterator[None]:
    tfring.init()
    yield
    tfring.shutdown()


@pytest.fixture(params=[True, False], ids=["shortcut", "op"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a test with the shortcut for one rank, and with the native op."""
    monkeypatch.setattr(ops, "_SKIP_WHEN_ALONE", request.param)


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the native op run although there is one rank."""
    monkeypatch.setattr(ops, "_SKIP_WHEN_ALONE", False)


compiled = pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "xla"])


def values(dtype: tf.DType, shape: tuple[int, ...] = (2, 3)) -> tf.Tensor:
    return tf.cast(tf.reshape(tf.range(np.prod(shape)), shape), dtype)


def op_types(function: tf.types.experimental.PolymorphicFunction, *args) -> set[str]:
    graph = function.get_concrete_function(*args).graph
    return {operation.type for operation in graph.get_operations()}


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_every_dtype(dtype: tf.DType) -> None:
    x = values(dtype)
    op = tfring.Max if dtype == tf.bool else tfring.Average
    for result in (tfring.allreduce(x, op=op), tfring.allgather(x), tfring.broadcast(x)):
        assert result.dtype == dtype
        np.testing.assert_array_equal(result.numpy(), x.numpy())


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (5, 1)])
def test_every_shape(shape: tuple[int, ...]) -> None:
    x = values(tf.float32, shape)
    np.testing.assert_array_equal(tfring.allreduce(x), x)
    np.testing.assert_array_equal(tfring.broadcast(x), x)
    np.testing.assert_array_equal(tfring.allgather(x), tf.reshape(x, shape or (1,)))


@pytest.mark.usefixtures("path")
def test_whatever_converts_is_accepted() -> None:
    expected = np.array([1.0, 2.0], np.float32)
    for value in (
        expected,
        [1.0, 2.0],
        tf.constant(expected),
        tf.Variable(expected),
        keras.Variable(expected),
    ):
        np.testing.assert_array_equal(tfring.allreduce(value), expected)
    assert tfring.allreduce(np.float64(0.1)).dtype == tf.float64


@pytest.mark.usefixtures("path")
def test_factors() -> None:
    doubles = tfring.allreduce(values(tf.float64), prescale_factor=1 / 3, postscale_factor=0.1)
    np.testing.assert_allclose(doubles, values(tf.float64).numpy() / 3 * 0.1, rtol=1e-15)
    whole = tfring.allreduce(tf.constant([7, -7]), op=tfring.Sum, postscale_factor=0.5)
    np.testing.assert_array_equal(whole, [3, -3])


@pytest.mark.usefixtures("path")
def test_a_mixed_group() -> None:
    slices = tf.IndexedSlices(tf.ones([2, 3]), tf.constant([4, 1]), tf.constant([5, 3]))
    inputs = [values(tf.float32), None, values(tf.int64), slices, values(tf.float32, (4,))]
    result = tfring.grouped_allreduce(inputs, op=tfring.Sum, prescale_factor=2.0)
    np.testing.assert_array_equal(result[0], 2 * values(tf.float32))
    assert result[1] is None
    np.testing.assert_array_equal(result[2], 2 * values(tf.int64))
    assert isinstance(result[3], tf.IndexedSlices)
    np.testing.assert_array_equal(result[3].values, 2 * np.ones([2, 3]))
    np.testing.assert_array_equal(result[3].indices, [4, 1])
    np.testing.assert_array_equal(result[3].dense_shape, [5, 3])
    np.testing.assert_array_equal(result[4], 2 * values(tf.float32, (4,)))


@pytest.mark.usefixtures("path")
def test_empty_groups() -> None:
    assert tfring.grouped_allreduce([]) == []
    assert tfring.grouped_allreduce([None, None]) == [None, None]
    assert tfring.grouped_allgather([]) == []


@pytest.mark.usefixtures("path")
def test_slices_made_dense() -> None:
    slices = tf.IndexedSlices(tf.ones([3, 2]), tf.constant([1, 1, 0]), tf.constant([3, 2]))
    result = tfring.allreduce(slices, sparse_as_dense=True)
    np.testing.assert_array_equal(result, [[1, 1], [2, 2], [0, 0]])


def test_one_rank_adds_nothing_to_the_graph() -> None:
    step = tf.function(lambda x: [tfring.allreduce(x), tfring.broadcast(x), tfring.allgather(x)])
    assert op_types(step, tf.ones(3)) <= {"Placeholder", "Identity", "NoOp"}


@pytest.mark.usefixtures("native")
def test_shapes_are_inferred() -> None:
    seen = []

    @tf.function(input_signature=[tf.TensorSpec([None, 3]), tf.TensorSpec(None)])
    def step(known, unknown):
        for tensor in (known, unknown, tf.constant(1.0)):
            results = (tfring.allreduce(tensor), tfring.broadcast(tensor), tfring.allgather(tensor))
            seen.append([result.shape for result in results])

    step(tf.ones([2, 3]), tf.ones(1))
    assert [[shape.rank for shape in shapes] for shapes in seen] == [
        [2, 2, 2],
        [None, None, None],
        [0, 0, 1],
    ]
    assert [shape.as_list() for shape in seen[0]] == [[None, 3]] * 3


PEAK_MEMORY = """
import resource, tensorflow as tf, tfring
from tfring import ops
ops._SKIP_WHEN_ALONE = False
tfring.init()
step = tf.function(lambda x: tf.reduce_sum(tfring.allreduce(tf.random.normal(x.shape))))
step(tf.zeros(1))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
concrete = step.get_concrete_function(tf.TensorSpec([64 << 20]))
concrete(tf.zeros([64 << 20]))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
tfring.shutdown()
"""


def test_a_buffer_nobody_needs_is_reused() -> None:
    result = subprocess.run(
        [sys.executable, "-c", PEAK_MEMORY],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    # 256 MB each: the argument, and the tensor that is reduced; an output of its own would
    # make three.
    assert int(result.stdout) < 640


@compiled
@pytest.mark.usefixtures("native")
def test_all_kinds_compile(jit_compile: bool) -> None:
    @tf.function(jit_compile=jit_compile)
    def step(x):
        y = tf.transpose(tf.matmul(x, x, transpose_a=True))  # a layout of XLA's choice
        tfring.barrier()
        half = [tf.cast(x, dtype) for dtype in DTYPES]
        return (
            [y, tfring.broadcast(y), tfring.allreduce(tf.transpose(x))],
            [half, tfring.grouped_allgather(half, name="gathered")],
        )

    x = values(tf.float32)
    (first, second, third), (sent, gathered) = step(x)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(third, tf.transpose(x))
    for before, after in zip(sent, gathered, strict=True):
        assert before.dtype == after.dtype
        np.testing.assert_array_equal(before.numpy(), after.numpy())


@compiled
@pytest.mark.usefixtures("native")
def test_control_flow_and_its_gradient(jit_compile: bool) -> None:
    @tf.function(jit_compile=jit_compile)
    def inner(x):
        return tfring.allreduce(x)

    @tf.function(jit_compile=jit_compile)
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = inner(inner(x))
            y = tf.cond(tf.reduce_sum(y) > 0, lambda: tfring.allreduce(y) * 2, lambda: y)
            y = tf.while_loop(
                lambda i, y: i < 3,
                lambda i, y: (i + 1, tfring.allreduce(y)),
                [0, y],
                maximum_iterations=3,
            )[1]
            y = tf.map_fn(tfring.broadcast, y)
            for _ in tf.range(2):
                y = tfring.allgather(y)
                y = tf.ensure_shape(y, [2, 3])
            loss = tf.reduce_sum(y * y)
        return loss, tape.gradient(loss, x)

    x = values(tf.float32)
    loss, gradient = step(x)
    np.testing.assert_allclose(loss, np.sum((2 * x.numpy()) ** 2))
    np.testing.assert_allclose(gradient, 8 * x.numpy())


@pytest.mark.usefixtures("native")
def test_gradients_of_scaled_allreduce() -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = tfring.allreduce(x * x, prescale_factor=3.0, postscale_factor=0.5)
    np.testing.assert_allclose(tape.gradient(y, x), [3.0, 6.0])


@compiled
@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("op", [tfring.Min, tfring.Max, tfring.Product])
def test_reductions_without_gradient(op: tfring.ReduceOp, jit_compile: bool) -> None:
    @tf.function(jit_compile=jit_compile)
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tfring.allreduce(x, op=op)
        return tape.gradient(y, x)

    with pytest.raises(NotImplementedError, match="only Sum and Average have one"):
        step(tf.ones(2))


@pytest.mark.usefixtures("native")
def test_xla_needs_static_shapes() -> None:
    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None])])
    def step(x):
        return tfring.allreduce(x, name="mine")

    with pytest.raises(ValueError, match=r'tensor 0 of "mine" has the shape \(None,\)'):
        step(tf.ones(2))


@compiled
@pytest.mark.usefixtures("native")
def test_the_engine_gone_is_an_error(jit_compile: bool) -> None:
    variable = tf.Variable([1.0, 2.0])

    @tf.function(jit_compile=jit_compile)
    def step():
        variable.assign_add(tfring.allreduce(variable))

    step()
    np.testing.assert_array_equal(variable, [2.0, 4.0])
    tfring.shutdown()
    expected = tf.errors.InternalError if jit_compile else tf.errors.FailedPreconditionError
    with pytest.raises(expected, match="initiali[sz]ed"):
        step()
    np.testing.assert_array_equal(variable, [2.0, 4.0])


def test_before_init() -> None:
    tfring.shutdown()
    for call in (tfring.allreduce, tfring.allgather, tfring.broadcast):
        with pytest.raises(tfring.errors.NotInitializedError, match=r"call tfring\.init\(\)"):
            call(tf.ones(1))
    with pytest.raises(tfring.errors.NotInitializedError, match=r"tfring\.barrier"):
        tfring.barrier()


@pytest.mark.usefixtures("path")
def test_bad_arguments() -> None:
    with pytest.raises(TypeError, match="received string"):
        tfring.allreduce(tf.constant("text"))
    with pytest.raises(TypeError, match="received complex64"):
        tfring.allgather(tf.complex(1.0, 2.0))
    with pytest.raises(TypeError, match="bool tensors can't be averaged"):
        tfring.allreduce(tf.constant([True]))
    with pytest.raises(TypeError, match="expected Average, Sum, Min, Max or Product"):
        tfring.allreduce(tf.ones(1), op="sum")
    with pytest.raises(ValueError, match="root_rank: expected one of the ranks 0, received 1"):
        tfring.broadcast(tf.ones(1), 1)
    with pytest.raises(TypeError, match="received a SparseTensor"):
        tfring.allreduce(tf.sparse.from_dense([1.0, 0.0]))


@pytest.mark.usefixtures("native")
def test_slices_take_sum_and_average_only() -> None:
    slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]), tf.constant([3, 2]))
    with pytest.raises(ValueError, match="pass sparse_as_dense=True"):
        tfring.allreduce(slices, op=tfring.Max)


@pytest.mark.usefixtures("native")
def test_keras_training_under_xla() -> None:
    class Optimizer(keras.optimizers.SGD):
        def apply(self, grads, trainable_variables=None):
            super().apply(tfring.grouped_allreduce(grads), trainable_variables)

    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(4, activation="relu"), keras.layers.Dense(1)])
    model.compile(Optimizer(0.05), "mse", jit_compile=True)
    x = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
    y = x.sum(axis=1, keepdims=True)
    losses = model.fit(x, y, batch_size=16, epochs=8, verbose=0).history["loss"]
    assert losses[-1] < losses[0] / 2
