"""Training that goes on when workers die, and when new ones come."""

from __future__ import annotations

from tfring.elastic.keras_state import KerasState
from tfring.elastic.tensorflow_state import TensorFlowState

__all__ = ["KerasState", "TensorFlowState"]
