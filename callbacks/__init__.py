"""Callbacks for `fit` and `evaluate` on several ranks. All ranks pass the same ones."""

from __future__ import annotations

from tfring.callbacks.average_metrics import AverageMetrics
from tfring.callbacks.broadcast_initial_variables import BroadcastInitialVariables
from tfring.callbacks.learning_rate_schedule import LearningRateSchedule
from tfring.callbacks.learning_rate_warmup import LearningRateWarmup
from tfring.callbacks.model_checkpoint import ModelCheckpoint
from tfring.callbacks.tensorboard import TensorBoard

__all__ = [
    "AverageMetrics",
    "BroadcastInitialVariables",
    "LearningRateSchedule",
    "LearningRateWarmup",
    "ModelCheckpoint",
    "TensorBoard",
]
