"""Multi-process data-parallel training for Keras 3 on TensorFlow.

Names load when first used, so that `import tfring` costs nothing and the launcher runs
without TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfring import callbacks, data, elastic, errors
    from tfring.autotune import autotuned_function
    from tfring.config import Config
    from tfring.engine import (
        cross_rank,
        cross_size,
        init,
        is_initialized,
        local_rank,
        local_size,
        rank,
        shutdown,
        size,
        start_timeline,
        stop_timeline,
    )
    from tfring.errors import TfringError
    from tfring.gradient_tape import DistributedGradientTape
    from tfring.launcher.run import run
    from tfring.monitoring.timeline.recording import timeline_step
    from tfring.objects import allgather_object, broadcast_object
    from tfring.ops import (
        Average,
        Max,
        Min,
        Product,
        ReduceOp,
        Sum,
        allgather,
        allreduce,
        barrier,
        broadcast,
        grouped_allgather,
        grouped_allreduce,
    )
    from tfring.optimizer import DistributedOptimizer, load_model
    from tfring.process_sets import (
        ProcessSet,
        add_process_set,
        global_process_set,
        remove_process_set,
    )
    from tfring.seed import set_seed
    from tfring.variables import broadcast_variables

__all__ = [
    # life cycle
    "Config",
    "TfringError",
    "cross_rank",
    "cross_size",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "rank",
    "run",
    "shutdown",
    "size",
    # operations
    "Average",
    "Max",
    "Min",
    "Product",
    "ReduceOp",
    "Sum",
    "allgather",
    "allgather_object",
    "allreduce",
    "barrier",
    "broadcast",
    "broadcast_object",
    "broadcast_variables",
    "grouped_allgather",
    "grouped_allreduce",
    # process sets
    "ProcessSet",
    "add_process_set",
    "global_process_set",
    "remove_process_set",
    # training
    "DistributedGradientTape",
    "DistributedOptimizer",
    "autotuned_function",
    "load_model",
    "set_seed",
    # where time goes
    "start_timeline",
    "stop_timeline",
    "timeline_step",
    # modules
    "callbacks",
    "data",
    "elastic",
    "errors",
]

_MODULES = ("callbacks", "data", "elastic", "errors")

_HOME = {
    "engine": (
        "cross_rank cross_size init is_initialized local_rank local_size rank shutdown size "
        "start_timeline stop_timeline"
    ),
    "autotune": "autotuned_function",
    "config": "Config",
    "errors": "TfringError",
    "launcher.run": "run",
    "monitoring.timeline.recording": "timeline_step",
    "objects": "allgather_object broadcast_object",
    "process_sets": "ProcessSet add_process_set global_process_set remove_process_set",
    "ops": (
        "Average Max Min Product ReduceOp Sum allgather allreduce barrier broadcast "
        "grouped_allgather grouped_allreduce"
    ),
    "variables": "broadcast_variables",
    "optimizer": "DistributedOptimizer load_model",
    "gradient_tape": "DistributedGradientTape",
    "seed": "set_seed",
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names.split()}

_NEED_TENSORFLOW = {
    *("autotune", "callbacks", "data", "elastic", "gradient_tape", "ops", "optimizer", "seed"),
    "variables",
}


def __getattr__(name: str) -> Any:
    module = name if name in _MODULES else _MODULE_OF.get(name)
    if module is None:
        if name == "__version__":
            return importlib.import_module("importlib.metadata").version("tfring")
        raise AttributeError(f"module 'tfring' has no attribute {name!r}")
    if module in _NEED_TENSORFLOW:
        importlib.import_module("tfring.compatibility").require_tensorflow()
    home = importlib.import_module(f"tfring.{module}")
    value = home if name in _MODULES else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    dunders = (name for name in globals() if name.startswith("__"))
    return sorted({*__all__, *dunders, "__version__"})
