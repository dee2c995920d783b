"""The variables of a Keras model and its optimizers that ranks share, and their structure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from tfring.errors import MismatchError
from tfring.keras_hooks import accumulator_ids

# Of a variable: path, data type, shape.
Description = tuple[str, str, tuple[int, ...]]


def optimizers_of(model: Any) -> list[Any]:
    """The optimizers of a model; models with a `train_step` of their own may have several."""
    found = {
        id(value): value
        for value in (getattr(model, "optimizer", None), *vars(model).values())
        if isinstance(value, keras.optimizers.Optimizer)
    }
    return list(found.values())


def shared_state(model: Any) -> list[Any]:
    """Weights and optimizer state; of a model with several optimizers that of all.

    The model's own optimizer is built if need be. Gradients that an optimizer is accumulating
    are a rank's own.
    """
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and not optimizer.built:
        optimizer.build(model.trainable_variables)
    state = {id(variable): variable for variable in model.weights}
    for optimizer in optimizers_of(model):
        local = accumulator_ids(optimizer)
        state.update({id(v): v for v in optimizer.variables if id(v) not in local})
    return list(state.values())


def is_built(model: Any) -> bool:
    """Whether a model has its weights."""
    # A model with a train_step of its own (GANs) may never be called itself.
    return bool(model.built or (model.layers and all(layer.built for layer in model.layers)))


def describe(variables: Sequence[Any]) -> list[Description]:
    """What must be the same on every rank; paths may differ, since Keras numbers layers."""
    return [
        (getattr(v, "path", v.name), str(getattr(v.dtype, "name", v.dtype)), tuple(v.shape))
        for v in variables
    ]


def require_same(everyone: Sequence[Sequence[Description]]) -> None:
    """Makes sure that the ranks have the same model.

    Args:
        everyone: What `describe` returns, of each rank.

    Raises:
        MismatchError: They have not; it names the first variable that differs.
    """
    for rank, described in enumerate(everyone):
        for position in range(max(len(described), len(everyone[0]))):
            first, here = (
                row[position] if position < len(row) else None for row in (everyone[0], described)
            )
            # Keras numbers layers over the whole process, so names may differ.
            if (first and first[1:]) != (here and here[1:]):
                raise MismatchError(
                    f"the ranks have different models: variable {position} is {_text(first)} on "
                    f"rank 0 and {_text(here)} on rank {rank} (of {len(everyone[0])} and "
                    f"{len(described)} variables of model and optimizer)"
                )


def _text(described: Description | None) -> str:
    if described is None:
        return "missing"
    path, dtype, shape = described
    return f"{path} ({dtype}, shape {shape})"
