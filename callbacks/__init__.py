"""Callbacks for `fit` and `evaluate` on several ranks. All ranks pass the same ones."""

from __future__ import annotations

from tfring.callbacks.average_metrics import AverageMetrics
from tfring.callbacks.broadcast_initial_variables import BroadcastInitialVariables
from tfring.callbacks.commit_state import CommitState
from tfring.callbacks.learning_rate_schedule import LearningRateSchedule
from tfring.callbacks.learning_rate_warmup import LearningRateWarmup
from tfring.callbacks.model_checkpoint import ModelCheckpoint
from tfring.callbacks.scale_learning_rate import ScaleLearningRate
from tfring.callbacks.tensorboard import TensorBoard
from tfring.callbacks.update_batch_state import UpdateBatchState
from tfring.callbacks.update_epoch_state import UpdateEpochState

__all__ = [
    "AverageMetrics",
    "BroadcastInitialVariables",
    "CommitState",
    "LearningRateSchedule",
    "LearningRateWarmup",
    "ModelCheckpoint",
    "ScaleLearningRate",
    "TensorBoard",
    "UpdateBatchState",
    "UpdateEpochState",
]
