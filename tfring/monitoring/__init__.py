"""What a job measures: metrics over all ranks, and where its time goes."""

from __future__ import annotations

from tfring.monitoring.communication import CommunicationMonitor
from tfring.monitoring.metric_state import global_state

__all__ = ["CommunicationMonitor", "global_state"]
