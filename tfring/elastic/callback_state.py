"""What Keras callbacks remember, so that another process can go on with it.

Callbacks keep their state in attributes: EarlyStopping `wait` and `best`, History its lists,
TensorBoard its counts. `fit` calls `on_train_begin` of each, which sets them back; after that,
and before the first batch, they get what they had.

Only attributes that have changed since `on_train_begin` are carried. The others are settings,
which belong to the script of now; a patience that was raised for a new start stays raised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tfring.keras_hooks import keep_best

# By callback (class and number among its class) its attributes.
CallbackState = dict[str, dict[str, Any]]

_SCALARS = (type(None), bool, int, float, complex, str, bytes, np.generic)
# Of Keras: what a callback works on, not what it remembers; and a setting whose sign Keras
# changes when it is first used.
_NOT_STATE = {"params", "_params", "model", "_model", "validation_data", "min_delta"}
# Instead of attributes, for a callback that has both methods.
_STATE_DICT = "state_dict()"


class CallbackMemory:
    """The state of the callbacks of one call of `fit`.

    Args:
        callbacks: After `on_train_begin`.
        carried: What `capture` returned in another call of `fit`, here or in another process.
    """

    def __init__(self, callbacks: Sequence[Any], carried: CallbackState | None = None) -> None:
        self._callbacks = list(callbacks)
        self._fresh = {key: _attributes(callback) for key, callback in _named(callbacks)}
        self._carried = {key: set(values) for key, values in (carried or {}).items()}
        for key, callback in _named(callbacks):
            _put(callback, (carried or {}).get(key, {}))

    def capture(self) -> CallbackState:
        """What has to be carried, as plain values."""
        state: CallbackState = {}
        for key, callback in _named(self._callbacks):
            fresh, carried = self._fresh.get(key, {}), self._carried.get(key, set())
            changed = {
                name: value
                for name, value in _attributes(callback).items()
                if name in carried or name not in fresh or not _same(value, fresh[name])
            }
            if changed:
                state[key] = changed
        return state


def _named(callbacks: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Callbacks with names by which ranks find them whose lists are not quite the same."""
    counts: Counter[str] = Counter()
    for callback in callbacks:
        name = type(callback).__name__
        yield f"{name} {counts[name]}", callback
        counts[name] += 1


def _attributes(callback: Any) -> dict[str, Any]:
    if hasattr(callback, "state_dict") and hasattr(callback, "load_state_dict"):
        return {_STATE_DICT: callback.state_dict()}
    found = {}
    for name, value in vars(callback).items():
        if name not in _NOT_STATE:
            try:
                found[name] = _plain(value)
            except TypeError:
                continue  # a model, a file, a function: its own process's
    return found


def _put(callback: Any, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if name == _STATE_DICT:
            callback.load_state_dict(value)
        else:
            setattr(callback, name, _plain(value))
    if "best" in values:
        keep_best(callback)


def _plain(value: Any) -> Any:
    """A copy of plain data; arrays are shared.

    Raises:
        TypeError: It is, or contains, something else.
    """
    if isinstance(value, _SCALARS):
        return value
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value
    kind = type(value)
    if kind in (list, tuple, set):
        return kind(_plain(item) for item in value)
    if kind is dict:
        return {_plain(key): _plain(item) for key, item in value.items()}
    raise TypeError(f"{kind.__name__} is no plain data")


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        nan = one.dtype.kind == "f"
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=nan)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return bool(one == other or (one != one and other != other))
