"""How a function reaches the workers of `tfring.run`, and how its results come back.

All goes through a store that the calling process serves. Values are pickled and cut into
pieces, since the store limits the size of one.
"""

from __future__ import annotations

import pickle
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import cloudpickle

from tfring.native import StoreClient

STORE_VARIABLE = "TFRING_FUNCTION_STORE"
SECRET_VARIABLE = "TFRING_FUNCTION_SECRET"
_PIECE_BYTES = 8 << 20
_FUNCTION_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Task:
    """What every worker runs.

    Attributes:
        function: Pickled after the path is set, since its module may be found there only.
        path: The caller's sys.path.
    """

    function: bytes
    path: list[str]

    @classmethod
    def of(
        cls, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Task:
        """The task that calls `function`.

        Raises:
            Exception: Something of it does not pickle.
        """
        return cls(cloudpickle.dumps((function, args, dict(kwargs))), list(sys.path))

    def run(self) -> Any:
        """Calls the function."""
        sys.path += [entry for entry in self.path if entry not in sys.path]
        function, args, kwargs = pickle.loads(self.function)
        return function(*args, **kwargs)


@dataclass(frozen=True)
class Failure:
    """What a worker's function raised.

    Attributes:
        rank: The worker.
        text: Its traceback.
        error: The pickled exception; b"" when it does not pickle.
    """

    rank: int
    text: str
    error: bytes

    @classmethod
    def of(cls, rank: int, error: BaseException) -> Failure:
        """Describes an exception that has been caught."""
        text = "".join(traceback.format_exception(error))
        try:
            pickled = cloudpickle.dumps(error)
        except Exception:
            pickled = b""
        return cls(rank, text, pickled)

    def exception(self) -> BaseException | None:
        """The exception, if it can be made here."""
        try:
            error = pickle.loads(self.error)
        except Exception:
            return None
        return error if isinstance(error, BaseException) else None


class FunctionExchange:
    """The task, results and failures in a store."""

    def __init__(self, client: StoreClient) -> None:
        self._client = client

    def put_task(self, task: Task) -> None:
        """The caller's offer."""
        self._put("task", pickle.dumps(task))

    def task(self) -> Task:
        """What this worker shall do."""
        task = pickle.loads(self._get("task", _FUNCTION_TIMEOUT_S))
        assert isinstance(task, Task)
        return task

    def put_result(self, rank: int, value: Any) -> None:
        """A worker's result."""
        self._put(f"result/{rank}", cloudpickle.dumps(value))

    def result(self, rank: int) -> Any:
        """The result of a worker that has ended.

        Raises:
            RendezvousTimeoutError: It left none.
        """
        return pickle.loads(self._get(f"result/{rank}", 1.0))

    def put_failure(self, failure: Failure) -> None:
        """A worker's failure; they keep the order in which they come."""
        number = self._client.add("failures", 1)
        self._put(f"failure/{number}", pickle.dumps(failure))

    def first_failure(self) -> Failure | None:
        """The failure that came first."""
        if self._client.add("failures", 0) == 0:
            return None
        failure = pickle.loads(self._get("failure/1", 1.0))
        assert isinstance(failure, Failure)
        return failure

    def _put(self, key: str, data: bytes) -> None:
        pieces = range(0, max(1, len(data)), _PIECE_BYTES)
        for number, start in enumerate(pieces):
            self._client.set(f"{key}/{number}", data[start : start + _PIECE_BYTES])
        self._client.set(key, str(len(pieces)).encode())

    def _get(self, key: str, timeout_s: float) -> bytes:
        count = int(self._client.get(key, timeout_s=timeout_s))
        return b"".join(
            self._client.get(f"{key}/{number}", timeout_s=timeout_s) for number in range(count)
        )
