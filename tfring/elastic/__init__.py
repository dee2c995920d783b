"""Training that goes on when workers die, and when new ones come."""

from __future__ import annotations

from tfring.elastic.keras_state import KerasState
from tfring.elastic.object_state import ObjectState
from tfring.elastic.recovery import Recovery, recoveries
from tfring.elastic.run import run
from tfring.elastic.sample_weights import weigh_loss
from tfring.elastic.sampler import Sampler
from tfring.elastic.state import State
from tfring.elastic.tensorflow_state import TensorFlowState

__all__ = [
    "KerasState",
    "ObjectState",
    "Recovery",
    "Sampler",
    "State",
    "TensorFlowState",
    "recoveries",
    "run",
    "weigh_loss",
]
