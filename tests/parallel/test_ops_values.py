"""Every operation gives what NumPy gives, for every data type, shape and number of ranks."""

from __future__ import annotations

import pytest

SHAPES = [(), (0,), (1,), (3,), (2, 0, 3), (5, 7), (1000,), (33, 17, 5)]


def inputs(dtype: str, shape: tuple[int, ...], rank: int):
    """A rank's tensor. Every rank can make those of the others."""
    import numpy as np
    import tensorflow as tf

    seed = [rank, *shape]
    generator = np.random.default_rng(seed)
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    # Small whole numbers: their sums and products are exact in every type.
    numbers = generator.integers(1, 3, shape)
    return numbers.astype(tf.as_dtype(dtype).as_numpy_dtype)


def expected(op: str, arrays):
    import numpy as np

    stacked = np.stack(arrays)
    if stacked.dtype == bool:
        return stacked.any(0) if op in ("Sum", "Max") else stacked.all(0)
    wide = stacked.astype(np.float64)
    if op == "Average":
        mean = wide.sum(0) / len(arrays)
        return np.trunc(mean) if np.issubdtype(stacked.dtype, np.integer) else mean
    return {"Sum": wide.sum, "Min": wide.min, "Max": wide.max, "Product": wide.prod}[op](0)


def reduce_everything(dtype: str) -> None:
    import numpy as np
    import tensorflow as tf

    import tfring

    ops = ["Sum", "Average", "Min", "Max", "Product"]
    if dtype == "bool":
        ops.remove("Average")
    tolerance = {"float16": 1e-3, "bfloat16": 1e-2, "float32": 1e-6}.get(dtype, 1e-12)
    everything = [tf.constant(inputs(dtype, shape, tfring.rank())) for shape in SHAPES]
    for op in ops:
        reduction = getattr(tfring, op)
        alone = [tfring.allreduce(tensor, op=reduction) for tensor in everything]
        fused = tfring.grouped_allreduce(everything, op=reduction)
        for shape, one, other in zip(SHAPES, alone, fused, strict=True):
            arrays = [inputs(dtype, shape, rank) for rank in range(tfring.size())]
            assert one.dtype.name == dtype and one.shape == shape
            actual = one.numpy().astype(bool if dtype == "bool" else np.float64)
            np.testing.assert_allclose(actual, expected(op, arrays), rtol=tolerance)
            np.testing.assert_array_equal(one.numpy(), other.numpy())


def move_everything(dtype: str) -> None:
    import numpy as np
    import tensorflow as tf

    import tfring

    rank, size = tfring.rank(), tfring.size()
    for shape in SHAPES:
        for root in {0, size - 1}:
            received = tfring.broadcast(tf.constant(inputs(dtype, shape, rank)), root)
            np.testing.assert_array_equal(received.numpy(), inputs(dtype, shape, root))
    # Rank r brings r rows, then the other way round.
    for rows in (lambda r: r, lambda r: size - 1 - r, lambda r: 0, lambda r: 2):
        for rest in ((), (3,), (2, 0), (5, 2)):
            gathered = tfring.allgather(inputs(dtype, (rows(rank), *rest), rank))
            parts = [inputs(dtype, (rows(r), *rest), r) for r in range(size)]
            np.testing.assert_array_equal(gathered.numpy(), np.concatenate(parts))
    scalars = tfring.allgather(inputs(dtype, (), rank))
    np.testing.assert_array_equal(scalars.numpy(), [inputs(dtype, (), r) for r in range(size)])


DTYPES = ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_allreduce(warm_ranks, dtype: str) -> None:
    warm_ranks(reduce_everything, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_broadcast_and_allgather(warm_ranks, dtype: str) -> None:
    warm_ranks(move_everything, dtype)


def integers() -> None:
    import numpy as np
    import tensorflow as tf

    import tfring

    rank, size = tfring.rank(), tfring.size()
    # The average truncates toward zero, on both sides of it.
    for sign in (1, -1):
        mean = tfring.allreduce(tf.constant([sign if rank == 0 else 0, sign * rank]))
        total = sum(range(size))
        np.testing.assert_array_equal(mean, [int(sign / size), int(sign * total / size)])
    # int64 is exact beyond what a double holds.
    big = (1 << 60) + 1
    same = tf.constant([big if rank == 0 else 0], tf.int64)
    np.testing.assert_array_equal(tfring.allreduce(same, op=tfring.Sum), [big])
    np.testing.assert_array_equal(tfring.allreduce(same), [big // size])


def test_integers(warm_ranks) -> None:
    warm_ranks(integers)


def big_tensors() -> None:
    import numpy as np
    import tensorflow as tf

    import tfring

    rank, size = tfring.rank(), tfring.size()
    count = 25_000_003  # 100 MB of float32
    total = tfring.allreduce(tf.fill([count], float(rank + 1)), op=tfring.Sum)
    assert np.all(total.numpy() == size * (size + 1) / 2)
    received = tfring.broadcast(tf.fill([count], float(rank)), size - 1)
    assert np.all(received.numpy() == size - 1)
    gathered = tfring.allgather(tf.fill([count // size], float(rank))).numpy()
    for part, rows in enumerate(np.split(gathered, size)):
        assert np.all(rows == part)


def test_big_tensors(warm_ranks) -> None:
    warm_ranks(big_tensors)


def half_types_accumulate_wide() -> None:
    import numpy as np
    import tensorflow as tf

    import tfring

    rank, size = tfring.rank(), tfring.size()
    # In float16, 2048 + 1 is 2048 again: only a wider sum sees the ones.
    value = 2048.0 if rank == 0 else 1.0
    total = tfring.allreduce(tf.constant([value], tf.float16), op=tfring.Sum)
    np.testing.assert_array_equal(total, np.float16([2048 + size - 1]))
    # A prescale keeps a sum from overflowing.
    large = tf.constant([60000.0], tf.float16)
    mean = tfring.allreduce(large, op=tfring.Sum, prescale_factor=1 / size)
    np.testing.assert_allclose(mean.numpy().astype(float), [60000.0], rtol=1e-3)


def test_half_types_accumulate_wide(warm_ranks) -> None:
    warm_ranks(half_types_accumulate_wide)


def bits() -> bytes:
    import numpy as np
    import tensorflow as tf

    import tfring

    generator = np.random.default_rng(tfring.rank())
    tensors = [
        tf.constant(generator.normal(size=count), dtype)
        for count in (1, 1000, 300_001)
        for dtype in (tf.float32, tf.float16, tf.bfloat16, tf.float64)
    ]
    return b"".join(tensor.numpy().tobytes() for tensor in tfring.grouped_allreduce(tensors))


def test_all_ranks_have_the_same_bits(warm_ranks) -> None:
    first = warm_ranks(bits)
    assert len(set(first)) == 1
    assert warm_ranks(bits) == first


def process_sets() -> None:
    import numpy as np
    import tensorflow as tf

    import tfring

    rank, size = tfring.rank(), tfring.size()
    evens = tfring.add_process_set(range(0, size, 2))
    alone = tfring.add_process_set([size - 1])
    assert evens.included() == (rank % 2 == 0)
    assert evens.ranks == tuple(range(0, size, 2))
    if evens.included():
        assert evens.rank() == rank // 2
        x = tf.Variable([float(rank)])
        with tf.GradientTape() as tape:
            total = tfring.allreduce(x, op=tfring.Sum, process_set=evens)
            gathered = tfring.allgather(x, process_set=evens)
            received = tfring.broadcast(x, evens.ranks[-1], process_set=evens)
            loss = tf.reduce_sum(gathered * (tf.range(evens.size(), dtype=tf.float32) + 1))
        np.testing.assert_array_equal(total, [sum(evens.ranks)])
        np.testing.assert_array_equal(gathered, evens.ranks)
        np.testing.assert_array_equal(received, [evens.ranks[-1]])
        np.testing.assert_array_equal(tape.gradient(loss, x), [evens.size() * (evens.rank() + 1.0)])
    else:
        with np.testing.assert_raises_regex(ValueError, f"rank {rank} is not a member"):
            tfring.allreduce(tf.ones(1), process_set=evens)
    if alone.included():
        assert tfring.allreduce(tf.ones(1), process_set=alone)[0] == 1.0
    tfring.barrier()
    tfring.remove_process_set(evens)
    with np.testing.assert_raises_regex(ValueError, "not known to the engine|not a member"):
        tfring.allreduce(tf.ones(1), process_set=evens)


@pytest.mark.parametrize("np", [2, 3])
def test_process_sets(warm_ranks, np: int) -> None:
    warm_ranks(process_sets, np=np)
