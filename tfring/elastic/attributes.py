"""The attributes of a state that users give it, on their way to other processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cloudpickle

# An attribute that has both gives away its state, and stays the object that it is.
_GIVE, _TAKE = "state_dict", "load_state_dict"


def pack(attributes: Mapping[str, Any]) -> bytes:
    """Attributes as bytes; a copy, so that later changes don't matter.

    Raises:
        TypeError: One can't be pickled; the message names it.
    """
    packed = {}
    for name, value in attributes.items():
        hooks = hasattr(value, _GIVE) and hasattr(value, _TAKE)
        try:
            packed[name] = (hooks, cloudpickle.dumps(getattr(value, _GIVE)() if hooks else value))
        except Exception as error:
            raise TypeError(
                f"attribute {name!r} of an elastic state: expected something that can be pickled, "
                f"or that has {_GIVE}() and {_TAKE}(), received a {type(value).__name__}: {error}"
            ) from error
    return bytes(cloudpickle.dumps(packed))


def unpack(data: bytes, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes from bytes.

    Args:
        data: Of `pack`.
        attributes: Those of now. Objects with hooks take their state; names that are not
            among them are left out.

    Returns:
        The attributes to have from now on.
    """
    result = dict(attributes)
    for name, (hooks, value) in cloudpickle.loads(data).items():
        if name not in result:
            continue
        if hooks:
            getattr(result[name], _TAKE)(cloudpickle.loads(value))
        else:
            result[name] = cloudpickle.loads(value)
    return result
