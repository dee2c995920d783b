"""Where the time of a training step goes: computing, communicating, waiting for others."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import astuple, dataclass

import numpy as np

from tfring import engine
from tfring.arrays import allgather_array


@dataclass(frozen=True)
class Sample:
    """What one rank measured over some steps. All but `steps` are sums over them.

    Attributes:
        steps: Number of training steps.
        step_s: Seconds in training steps.
        allreduce_s: Seconds in which at least one allreduce was going on.
        exposed_s: The part of `allreduce_s` in which there was nothing left to compute:
            from the last allreduce of a step being started to the end of all.
        wait_s: Seconds for which allreduces waited for the first bytes of the slowest rank,
            summed over allreduces.
        bytes: Size of the tensors that were reduced.
    """

    steps: float
    step_s: float
    allreduce_s: float
    exposed_s: float
    wait_s: float
    bytes: float

    def __add__(self, other: Sample) -> Sample:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Sample(*(mine + theirs for mine, theirs in pairs))


_NOTHING = Sample(0, 0, 0, 0, 0, 0)


def scalars(samples: list[Sample]) -> dict[str, float]:
    """What to show of the samples of all ranks, by name; times and bytes are per step.

    Args:
        samples: Of each rank, in rank order, over the same steps.

    Returns:
        `step_time_s`, `allreduce_time_s`, `exposed_communication` (its share of the step
        time, 0 to 1) and `allreduce_mb` are means over the ranks; `allreduce_gb_per_s` is
        the size of the tensors over the time in which allreduces were going on;
        `wait_time_s/rank_0` and so on say how long each rank waited for others: the one
        that waits least is the slowest. Empty if there were no steps.
    """
    steps = min(sample.steps for sample in samples)
    if steps <= 0:
        return {}

    def mean(of: Callable[[Sample], float]) -> float:
        return float(np.mean([of(sample) / sample.steps for sample in samples]))

    step_s = mean(lambda sample: sample.step_s)
    allreduce_s = mean(lambda sample: sample.allreduce_s)
    size = mean(lambda sample: sample.bytes)
    shown = {
        "step_time_s": step_s,
        "allreduce_time_s": allreduce_s,
        "allreduce_mb": size / 1e6,
        "allreduce_gb_per_s": size / 1e9 / allreduce_s if allreduce_s > 0 else 0.0,
        "exposed_communication": (
            min(1.0, mean(lambda sample: sample.exposed_s) / step_s) if step_s > 0 else 0.0
        ),
    }
    for rank, sample in enumerate(samples):
        shown[f"wait_time_s/rank_{rank}"] = sample.wait_s / sample.steps
    return shown


class CommunicationMonitor:
    """Measures steps on this rank and shows what all ranks measured.

    Only what happens during steps counts, so that reductions of metrics, or the wait for a
    rank that validates longer, do not look like a part of training.

    Example:

    >>> monitor = CommunicationMonitor()
    >>> for batch in batches:
    ...     monitor.begin_step()
    ...     train_step(batch)
    ...     monitor.end_step()
    >>> monitor.collect()                                  # on all ranks
    {'step_time_s': 0.13, 'allreduce_time_s': 0.021, ...}
    """

    def __init__(self) -> None:
        self._began = 0.0
        self._before = engine.counters()
        self._total = _NOTHING

    def restart(self) -> None:
        """Forgets what has been measured."""
        self._total = _NOTHING

    def begin_step(self) -> None:
        """Call it right before a training step, or before several that run as one."""
        self._before = engine.counters()
        self._began = time.perf_counter()

    def end_step(self, steps: int = 1) -> None:
        """Call it after.

        Args:
            steps: How many steps it was.
        """
        step_s = time.perf_counter() - self._began
        now, before = engine.counters(), self._before
        reduced = now.allreduce_operations > before.allreduce_operations
        self._total = self._total + Sample(
            steps=steps,
            step_s=step_s,
            allreduce_s=now.allreduce_busy_seconds - before.allreduce_busy_seconds,
            # Of several steps that ran as one only the last has been seen.
            exposed_s=steps * now.allreduce_tail_seconds if reduced else 0.0,
            wait_s=now.wait_seconds - before.wait_seconds,
            bytes=now.allreduce_bytes - before.allreduce_bytes,
        )

    def sample(self) -> Sample:
        """What this rank has measured since the last restart."""
        return self._total

    def collect(self, *, name: str = "communication") -> dict[str, float]:
        """Exchanges what all ranks have measured, and restarts. All ranks call it.

        Args:
            name: The same on every rank.

        Returns:
            As `scalars`.
        """
        rows = allgather_array(np.array([astuple(self._total)], np.float64), name=name)
        self.restart()
        return scalars([Sample(*map(float, values)) for values in rows])
