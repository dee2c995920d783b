"""Fixtures that run a function on several ranks, each a real process.

    def body(scale):                       # at module level; runs on every rank
        import tensorflow as tf            # here, not at the top: see below
        return tfring.allreduce(tf.ones(3) * scale).numpy().tolist()

    def test_something(warm_ranks, ranks):
        assert warm_ranks(body, 2.0) == [[2.0, 2.0, 2.0]] * ranks

`warm_ranks` uses processes that live as long as the test run, so TensorFlow is imported
once and not once a test; `tfring.init()` and `shutdown()` enclose each function. Use it
unless the test is about the process itself: its environment, its start, its death, or a
global setting of TensorFlow. `run_ranks` starts fresh processes for one function, at 4 to
10 seconds each for TensorFlow alone: put several checks into one function.

Test modules import TensorFlow inside functions, so that the test process need not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.rank_pool import RankPool, RanksFailed

RunRanks = Callable[..., list[Any]]


@pytest.fixture
def run_ranks(ranks: int) -> RunRanks:
    """Runs a function once, in fresh processes: `run_ranks(function, *args, np=, ...)`.

    Keyword arguments: np (default: --ranks), timeout_s, init, may_die, bare,
    launcher_args, env; see RankPool.
    """

    def run(
        function: Callable[..., Any],
        *args: Any,
        np: int | None = None,
        bare: bool = False,
        launcher_args: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        **options: Any,
    ) -> list[Any]:
        pool = RankPool(np or ranks, bare=bare, launcher_args=launcher_args, env=env)
        try:
            return pool.run(function, *args, **options)
        finally:
            pool.close()

    return run


class WarmRanks:
    """One pool kept between tests; made anew for another size or after a failure."""

    def __init__(self) -> None:
        self._pool: RankPool | None = None

    def run(self, np: int, function: Callable[..., Any], *args: Any, **options: Any) -> list[Any]:
        if self._pool is not None and self._pool.np != np:
            self.close()
        if self._pool is None:
            self._pool = RankPool(np)
        try:
            return self._pool.run(function, *args, **options)
        except RanksFailed:
            self._pool = None
            raise

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None


@pytest.fixture(scope="session")
def _warm_pool() -> Iterator[WarmRanks]:
    pool = WarmRanks()
    yield pool
    pool.close()


@pytest.fixture
def warm_ranks(_warm_pool: WarmRanks, ranks: int) -> RunRanks:
    """Runs a function in processes that are already there: `warm_ranks(function, *args)`.

    Keyword arguments: np (default: --ranks), timeout_s, init.
    """

    def run(
        function: Callable[..., Any], *args: Any, np: int | None = None, **options: Any
    ) -> list[Any]:
        return _warm_pool.run(np or ranks, function, *args, **options)

    return run
