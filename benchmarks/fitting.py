"""Fits the constants of a model to measurements: least squares on logarithms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

# Constants by name, all positive.
Constants = dict[str, float]
# What a model says of every measured point, in seconds.
Predict = Callable[[Mapping[str, float]], Sequence[float]]

_STEP = 1e-3  # of a logarithm, for derivatives
_BOUND = 1.0  # a constant changes by this factor's exponential at most in a step
_PULL = 0.02  # towards the start, for what the points say nothing of


def fit(
    predict: Predict, measured: Sequence[float], start: Mapping[str, float], steps: int = 40
) -> Constants:
    """The constants for which predictions differ least from measurements, by factors.

    Levenberg and Marquardt's method in the logarithms of constants and times, so that an error
    of 10 % weighs the same at a microsecond and at a second.

    Args:
        predict: The model.
        measured: Seconds, as many as it predicts.
        start: Where to begin; a constant to which no point is sensitive stays there.
        steps: At most so many.

    Raises:
        ValueError: The model predicts another number of points, or a time that is not positive.
    """
    names = list(start)
    origin = np.log([start[name] for name in names])
    logs = origin.copy()
    target = np.log(measured)

    def residuals(at: np.ndarray) -> np.ndarray:
        predicted = np.asarray(predict(dict(zip(names, np.exp(at).tolist(), strict=True))))
        if predicted.shape != target.shape or not (predicted > 0).all():
            raise ValueError(
                f"expected {len(target)} positive times, received {len(predicted)}: {predicted}"
            )
        return np.concatenate([np.log(predicted) - target, _PULL * (at - origin)])

    error, damping = residuals(logs), 1e-2
    for _ in range(steps):
        slopes = np.empty((len(error), len(names)))
        for i in range(len(names)):
            moved = logs.copy()
            moved[i] += _STEP
            slopes[:, i] = (residuals(moved) - error) / _STEP
        square = slopes.T @ slopes
        for _ in range(8):
            step = np.linalg.solve(
                square + damping * np.diag(np.diag(square) + 1e-12), -slopes.T @ error
            )
            moved = logs + np.clip(step, -_BOUND, _BOUND)
            new = residuals(moved)
            if new @ new < error @ error:
                break
            damping *= 4
        else:
            break
        gained = 1 - (new @ new) / max(error @ error, 1e-30)
        logs, error, damping = moved, new, damping / 3
        if gained < 1e-6:
            break
    return dict(zip(names, np.exp(logs).tolist(), strict=True))
