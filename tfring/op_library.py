"""The native TensorFlow ops, loaded once."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfring.compatibility import require_tensorflow

PATH = Path(__file__).parent / "lib" / "libtfring_tf.so"

_OPS = ("allreduce", "allreduce_gradient", "broadcast", "allgather", "barrier", "rank", "health")


@functools.cache
def load() -> Any:
    """A module whose functions (`tfring_allreduce`, ...) create the ops.

    Raises:
        ImportError: The library is missing, or does not fit this TensorFlow.
    """
    require_tensorflow()
    if not PATH.exists():
        raise ImportError(
            f"{PATH} does not exist: tfring's native libraries have not been built. "
            "`pip install .` in a checkout builds them."
        )
    try:
        module = tf.load_op_library(str(PATH))
    except tf.errors.OpError as error:
        raise ImportError(
            f"TensorFlow {tf.__version__} can't load {PATH}: {error.message}"
        ) from error
    missing = [name for name in _OPS if not hasattr(module, f"tfring_{name}")]
    if missing:
        raise ImportError(f"TensorFlow {tf.__version__} refused the ops {missing} of {PATH}")
    return module


@functools.cache
def xla_ready() -> bool:
    """Whether functions that XLA compiles for the CPU can call the engine."""
    load()
    return bool(ctypes.CDLL(str(PATH)).tfring_tf_xla_ready())
