"""What a job measures: metrics over all ranks, where its time goes, and its timeline.

Names load when first used: the launcher puts timelines together, without NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfring.monitoring.communication import CommunicationMonitor
    from tfring.monitoring.metric_state import global_state

__all__ = ["CommunicationMonitor", "global_state"]

_HOME = {"CommunicationMonitor": "communication", "global_state": "metric_state"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tfring.monitoring' has no attribute {name!r}")
    return getattr(importlib.import_module(f"tfring.monitoring.{_HOME[name]}"), name)
