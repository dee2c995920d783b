"""`DistributedOptimizer`: data-parallel training with any Keras 3 optimizer."""

from __future__ import annotations

from typing import Any

import keras

from tfring import engine
from tfring.errors import InvalidArgumentError
from tfring.process_sets import ProcessSet
from tfring.reduce_op import ReduceOp
from tfring.reducing_optimizer import distribute, is_distributed
from tfring.reduction import Compressor, GradientReduction

__all__ = ["DistributedOptimizer", "is_distributed", "load_model", "require_distributed"]


def DistributedOptimizer(
    optimizer: Any,
    *,
    op: ReduceOp = ReduceOp.AVERAGE,
    compression: Compressor | None = None,
    bucket_bytes: int | None = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet | None = None,
    name: str | None = None,
) -> Any:
    """Makes an optimizer average gradients over all ranks before it applies them.

    Gradients are reduced once per update: before they are checked for overflow (mixed
    precision), clipped or used in any other way, and after they are accumulated
    (`gradient_accumulation_steps`). They travel in buckets while backpropagation goes on.
    No variable changes before all have arrived. Gradients that `DistributedGradientTape`
    has reduced are applied as they are.

    The optimizer is changed in place and remains an instance of its class. A model that is
    saved with it has the plain Keras optimizer in the file and loads without tfring; use
    `tfring.load_model` to go on training on several ranks.

    Example:

    >>> optimizer = keras.optimizers.Adam(1e-3 * tfring.size())
    >>> model.compile(tfring.DistributedOptimizer(optimizer), loss="mse")

    Args:
        optimizer: A `keras.optimizers.Optimizer`, or the name of one, such as "adam".
        op: `Average`, or any other reduction.
        compression: An object with `compress(tensor) -> (tensor, context)` and
            `decompress(tensor, context) -> tensor`, applied to dense gradients on their
            way; for instance to send them as float16.
        bucket_bytes: Bytes of gradients that travel in one operation; by default the setting
            of that name, which is 25 MiB. Less overlaps better with backpropagation, more
            costs fewer operations.
        sparse_as_dense: Reduce the gradient of an embedding as a dense tensor. By default
            (`tf.IndexedSlices`) the rows that any rank used are gathered.
        process_set: The ranks that train together; all by default.
        name: First part of the operations' names in errors and timelines; the same on
            every rank. By default it is the place in the traced function.

    Returns:
        The same optimizer, or the one that was named.

    Raises:
        TypeError: `optimizer` is no Keras optimizer, or another argument is of a wrong type.
        ValueError: It is distributed already, or `bucket_bytes` is less than 1.
    """
    if isinstance(optimizer, str):
        optimizer = keras.optimizers.get(optimizer)
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise TypeError(
            "optimizer: expected a keras.optimizers.Optimizer of Keras 3 or the name of one, "
            f"received {optimizer!r} of type {type(optimizer).__module__}."
            f"{type(optimizer).__qualname__}"
        )
    if is_distributed(optimizer):
        raise ValueError(
            f"optimizer {optimizer.name!r} is distributed already; wrap it once. "
            "(DistributedOptimizer changes an optimizer in place.)"
        )
    reduction = GradientReduction(
        op=op,
        compression=compression,
        bucket_bytes=bucket_bytes,
        sparse_as_dense=sparse_as_dense,
        process_set=process_set,
        name=name,
    )
    return distribute(optimizer, reduction)


def load_model(
    filepath: Any, *, custom_objects: Any = None, safe_mode: bool = True, **options: Any
) -> Any:
    """Loads a compiled model and makes its optimizer distributed, with its state.

    Example:

    >>> model = tfring.load_model("model.keras")
    >>> model.fit(dataset)

    Args:
        filepath: As for `keras.models.load_model`.
        custom_objects, safe_mode: The same.
        **options: As for `DistributedOptimizer`.

    Returns:
        The model. If it was saved without an optimizer it is as Keras loads it.

    Raises:
        As `keras.models.load_model` and `DistributedOptimizer`.
    """
    model = keras.models.load_model(filepath, custom_objects=custom_objects, safe_mode=safe_mode)
    if getattr(model, "optimizer", None) is not None:
        DistributedOptimizer(model.optimizer, **options)
    return model


def require_distributed(model: Any) -> None:
    """Makes sure that a model which trains on several ranks does not train on each alone.

    A model has to have a distributed optimizer, as `model.optimizer` or (GANs) in another
    attribute. A model without any optimizer is left alone.

    Raises:
        InvalidArgumentError: There are several ranks and it has none.
    """
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None or engine.size() == 1:
        return
    if not any(is_distributed(value) for value in (optimizer, *vars(model).values())):
        raise InvalidArgumentError(
            f"model {model.name!r} trains on {engine.size()} ranks, but its optimizer "
            f"{optimizer.name!r} does not reduce gradients: each rank would train a model of its "
            "own. Compile it with tfring.DistributedOptimizer(optimizer); use tfring.load_model "
            "instead of keras.models.load_model. With a train_step of your own that uses "
            "DistributedGradientTape do it too: gradients are not reduced twice"
        )
