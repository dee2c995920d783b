"""Which TensorFlow and Keras tfring works with, and what it says where it does not."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import warnings
from types import ModuleType

OLDEST_TENSORFLOW = (2, 16)
NEWEST_TESTED_TENSORFLOW = (2, 21)
OLDEST_KERAS = (3, 5)


def parse_version(version: str) -> tuple[int, int]:
    """Returns the major and minor number of a version such as "2.21.0-rc1".

    Raises:
        ValueError: The text doesn't begin with two numbers.
    """
    parts = version.split(".")
    return int(parts[0]), int(parts[1])


def check_tensorflow_version(version: str) -> None:
    """Refuses a TensorFlow that is too old and warns of one that is newer than tested.

    Raises:
        ImportError: `version` is older than `OLDEST_TENSORFLOW`.
    """
    found = parse_version(version)
    if found < OLDEST_TENSORFLOW:
        raise ImportError(
            f"tfring needs TensorFlow {_text(OLDEST_TENSORFLOW)} or newer, the first with "
            f"Keras 3; this is TensorFlow {version}. Upgrade it: pip install -U 'tfring[cpu]'"
        )
    if found > NEWEST_TESTED_TENSORFLOW:
        warnings.warn(
            f"TensorFlow {version} is newer than any that this tfring was tested with "
            f"({_text(OLDEST_TENSORFLOW)} to {_text(NEWEST_TESTED_TENSORFLOW)}). It will "
            f"probably work; if it does not, look for a newer tfring first",
            RuntimeWarning,
            stacklevel=3,
        )


def check_keras(version: str, backend: str) -> None:
    """Refuses a Keras that is too old or that computes with something else.

    Raises:
        ImportError: `version` is older than `OLDEST_KERAS`, or `backend` is not
            "tensorflow".
    """
    if parse_version(version) < OLDEST_KERAS:
        raise ImportError(
            f"tfring needs Keras {_text(OLDEST_KERAS)} or newer; this is Keras {version}. "
            f"Upgrade it: pip install -U 'keras>={_text(OLDEST_KERAS)}'"
        )
    if backend != "tensorflow":
        raise ImportError(
            f"tfring trains with Keras on TensorFlow, but Keras's backend here is {backend!r}. "
            f"Set KERAS_BACKEND=tensorflow, or remove the setting from keras.json"
        )


@functools.cache
def require_tensorflow() -> ModuleType:
    """Imports TensorFlow after making sure that tfring can work with it.

    Only the first call does anything; a warning is given once.

    Returns:
        The module `tensorflow`.

    Raises:
        ImportError: There is no TensorFlow or no Keras, or a version that is too old. The
            message says what to install.
    """
    if importlib.util.find_spec("tensorflow") is None:
        raise ModuleNotFoundError(
            "tfring found no TensorFlow in this environment. Install one: "
            "pip install 'tfring[cpu]' on a machine without a GPU, "
            "pip install 'tfring[gpu]' on one with NVIDIA GPUs",
            name="tensorflow",
        )
    tensorflow = importlib.import_module("tensorflow")
    check_tensorflow_version(tensorflow.__version__)
    keras = importlib.import_module("keras")
    check_keras(keras.__version__, keras.backend.backend())
    return tensorflow


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
