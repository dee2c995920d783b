"""Giving all ranks the same variables, and making sure that they have them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfring import arrays, engine, keras_hooks, ops
from tfring.buckets import plan_buckets
from tfring.errors import MismatchError
from tfring.op_inputs import DTYPES
from tfring.process_sets import ProcessSet

# Enough to make the latency of an operation negligible.
_BUCKET_BYTES = 64 * 1024 * 1024
_DIGEST_BYTES = 32


@tf.autograph.experimental.do_not_convert
def broadcast_variables(
    variables: Sequence[Any],
    root_rank: int = 0,
    *,
    process_set: ProcessSet | None = None,
    name: str = "variables",
    receive: bool = True,
) -> None:
    """Gives every rank the root's values. No variable changes before all have arrived.

    Works eagerly and in `tf.function`.

    Example:

    >>> tfring.broadcast_variables(tfring.variables.training_state(model))

    Args:
        variables: `keras.Variable` and `tf.Variable` in any mixture, of any numeric type or
            bool; the same shapes and types in the same order on every rank.
        root_rank: Whose values count.
        process_set: The ranks that take part; all by default.
        name: What the operations are called; the same on every rank.
        receive: Whether this rank's variables change; each rank says so for itself.

    Raises:
        TypeError: An element is no variable, or holds strings or other objects.
        Otherwise as `tfring.broadcast`.
    """
    if engine.rehearsing():
        return
    targets = [_native(variable) for variable in variables]
    carriers = [_carrier(target) for target in targets]
    received: list[Any] = [None] * len(targets)
    for number, bucket in enumerate(_buckets(carriers)):
        values = ops.grouped_broadcast(
            [carriers[position] for position in bucket],
            root_rank,
            name=f"{name}/{number}",
            process_set=process_set,
        )
        for position, value in zip(bucket, values, strict=True):
            received[position] = value
    if not receive:
        return
    with tf.control_dependencies(received):
        for target, value in zip(targets, received, strict=True):
            target.assign(value if value.dtype == target.dtype else _decode(value, target))


def training_state(model: Any) -> list[Any]:
    """The variables of a Keras model that must be the same on every rank.

    Those are its weights and, if it is compiled, its optimizer's variables, which are
    created now if need be. The states of random seeds (dropout, augmentation) are not
    among them, since they should differ, nor are the metrics, nor the gradients that an
    optimizer has accumulated for its next update: each rank has its own.

    Args:
        model: A built `keras.Model`.

    Raises:
        ValueError: The model is not built, so that it has no weights yet.
    """
    if not model.built:
        raise ValueError(
            f"model {model.name!r} has no weights yet; call it on a batch, or model.build(shape)"
        )
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        return list(model.weights)
    if not optimizer.built:
        optimizer.build(model.trainable_variables)
    local = keras_hooks.accumulator_ids(optimizer)
    shared = [variable for variable in optimizer.variables if id(variable) not in local]
    return [*model.weights, *shared]


def weights_digest(variables: Sequence[Any]) -> str:
    """A text that is the same if and only if all values are the same, bit by bit.

    Args:
        variables: `keras.Variable`, `tf.Variable` or arrays.

    Returns:
        64 hexadecimal digits.
    """
    return hashlib.sha256(b"".join(_digests(variables))).hexdigest()


def assert_identical(variables: Sequence[Any], *, name: str = "identical") -> None:
    """Makes sure that the variables have the same bits on every rank.

    Every rank calls it with the same variables in the same order, and gets the same answer.

    Args:
        variables: `keras.Variable`, `tf.Variable` or arrays.
        name: What the operation is called; the same on every rank.

    Raises:
        MismatchError: Some differ. It names the first few and the ranks whose value is not
            that of the majority.
    """
    digests = _digests(variables)
    own = np.frombuffer(b"".join(digests), np.uint8).reshape(len(digests), _DIGEST_BYTES)
    counts = arrays.allgather_array(np.array([len(own)], np.int64), name=f"{name}/count")
    if len(set(counts.tolist())) > 1:
        raise MismatchError(
            "the ranks compare different numbers of variables: "
            + ", ".join(f"{count} on rank {rank}" for rank, count in enumerate(counts.tolist()))
        )
    everyone = arrays.allgather_array(own, name=f"{name}/digests")
    table = everyone.reshape(engine.size(), len(own), _DIGEST_BYTES)
    different = []
    for position, variable in enumerate(variables):
        odd = odd_ones([table[rank, position].tobytes() for rank in range(engine.size())])
        if odd:
            ranks = ", ".join(map(str, odd))
            different.append(f"{_label(variable, position)} on rank {ranks}")
    if different:
        shown = "; ".join(different[:5]) + ("; ..." if len(different) > 5 else "")
        raise MismatchError(
            f"{len(different)} of {len(own)} variables are not the same on all "
            f"{engine.size()} ranks: {shown}"
        )


def odd_ones(values: Sequence[bytes]) -> list[int]:
    """Positions of the values that differ from the most frequent one (the first such).

    Example:

    >>> odd_ones([b"a", b"b", b"b"])
    [0]
    """
    usual = max(values, key=values.count)
    return [position for position, value in enumerate(values) if value != usual]


def _digests(variables: Sequence[Any]) -> list[bytes]:
    digests = []
    for variable in variables:
        array = np.ascontiguousarray(np.asarray(tf.convert_to_tensor(variable)))
        header = f"{array.dtype.name} {array.shape} ".encode()
        digests.append(hashlib.sha256(header + array.tobytes()).digest())
    return digests


def _label(variable: Any, position: int) -> str:
    name = getattr(variable, "path", None) or getattr(variable, "name", None)
    return f"{name or 'variable'} (number {position})"


def _native(variable: Any) -> tf.Variable:
    native = getattr(variable, "value", variable)  # of a keras.Variable, its tf.Variable
    native = variable if callable(native) else native  # a tf.Variable has a method `value`
    if not isinstance(native, tf.Variable):
        raise TypeError(f"expected a keras.Variable or tf.Variable, received {variable!r}")
    return native


def _carrier(variable: tf.Variable) -> tf.Tensor:
    """Its value in a type that the engine knows."""
    value = tf.convert_to_tensor(variable)
    if value.dtype in DTYPES:
        return value
    if value.dtype.is_complex:
        return tf.stack([tf.math.real(value), tf.math.imag(value)])
    if value.dtype.is_floating:
        return tf.cast(value, tf.float32)  # float8, which bitcast does not take
    if not value.dtype.is_integer:
        raise TypeError(f"can't broadcast {variable.name}, which holds {value.dtype.name}")
    return tf.bitcast(value, tf.uint8)


def _decode(value: tf.Tensor, variable: tf.Variable) -> tf.Tensor:
    if variable.dtype.is_complex:
        return tf.complex(value[0], value[1])
    if variable.dtype.is_floating:
        return tf.cast(value, variable.dtype)
    return tf.bitcast(value, variable.dtype)


def _buckets(tensors: Sequence[tf.Tensor]) -> list[list[int]]:
    sizes = [(tensor.shape.num_elements() or 0) * tensor.dtype.size for tensor in tensors]
    dtypes = [tensor.dtype for tensor in tensors]
    return plan_buckets(sizes, dtypes, bucket_bytes=_BUCKET_BYTES, first_bucket_bytes=_BUCKET_BYTES)
