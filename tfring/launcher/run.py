"""`tfring.run`: a Python function on several ranks, started from Python."""

from __future__ import annotations

import secrets
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from tfring import config
from tfring.errors import LaunchError, RendezvousTimeoutError
from tfring.launcher.addresses import is_this_machine
from tfring.launcher.function_exchange import (
    SECRET_VARIABLE,
    STORE_VARIABLE,
    Failure,
    FunctionExchange,
    Task,
)
from tfring.launcher.hosts import Host, assign, parse_host_list
from tfring.launcher.ssh import Ssh
from tfring.launcher.store_place import StorePlace
from tfring.native import StoreClient

_TAIL_LINES = 20
# For the launcher to end the workers; it kills them after 5 s.
_END_TIMEOUT_S = 15.0


class RankTraceback(Exception):
    """The traceback of a worker, shown above the exception that `tfring.run` raises."""

    def __init__(self, rank: int, text: str) -> None:
        super().__init__(rank, text)
        self.rank = rank
        self.text = text

    def __str__(self) -> str:
        return f"on rank {self.rank}:\n{self.text}"


def run(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    np: int = 2,
    hosts: str | Sequence[str] | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> list[Any]:
    """Calls a function in several new processes, the ranks of one job.

    The function calls `tfring.init()` itself. It may be defined anywhere, in an interactive
    session too; what it refers to in `__main__` is sent along. What the workers print goes
    to this process's `sys.stdout` and `sys.stderr`, each line with its rank.

    Example:
        >>> def train(scale):
        ...     import tfring
        ...     tfring.init()
        ...     return tfring.rank() * scale
        >>> tfring.run(train, (10,), np=2)
        [0, 10]

    Args:
        function: What every rank calls.
        args: Its positional arguments, the same on every rank.
        kwargs: Its keyword arguments.
        np: Number of ranks.
        hosts: Where they run: "host1:2,host2:2" or a sequence of such entries. Default:
            this machine.
        env: Environment variables for the workers, on top of this process's.
        timeout_s: Seconds for everything; None for no limit.

    Returns:
        What the function returned, in rank order.

    Raises:
        Exception: What the function raised first on some rank. Its `__cause__` is a
            RankTraceback, which names the rank and has that rank's traceback.
        LaunchError: The workers could not be started, died, or took longer than `timeout_s`;
            or something does not pickle.
    """
    where = _hosts(hosts, np)
    assign(where, np)
    try:
        task = Task.of(function, tuple(args), kwargs or {})
    except Exception as error:
        raise LaunchError(f"cannot send {function!r} and its arguments: {error}") from error
    ssh = Ssh(python=sys.executable)
    remote = [ssh.address_of(host.name) for host in where if not is_this_machine(host.name)]
    place = StorePlace.serve(remote, interface="", secret=secrets.token_hex(32))
    try:
        with StoreClient(place.host, place.server.port, secret=place.secret) as client:
            exchange = FunctionExchange(client)
            exchange.put_task(task)
            variables = {
                **(env or {}),
                STORE_VARIABLE: place.address,
                SECRET_VARIABLE: place.secret,
            }
            status, tail = _launch(where, np, variables, timeout_s)
            return _results(exchange, np, status, tail)
    finally:
        place.stop()


def _hosts(hosts: str | Sequence[str] | None, np: int) -> list[Host]:
    if isinstance(np, bool) or not isinstance(np, int) or np < 1:
        raise LaunchError(f"np: received {np!r}, expected a whole number of at least 1")
    if hosts is None:
        return [Host("localhost", np)]
    return parse_host_list(hosts if isinstance(hosts, str) else ",".join(hosts))


def _launch(
    where: Sequence[Host], np: int, variables: Mapping[str, str], timeout_s: float | None
) -> tuple[int, str]:
    """Runs tfringrun; its exit status and the last lines of its standard error."""
    listed = ",".join(
        f"[{host.name}]:{host.slots}" if ":" in host.name else f"{host.name}:{host.slots}"
        for host in where
    )
    command = [sys.executable, "-m", "tfring.launcher.cli", "-np", str(np), "-H", listed]
    # By name: values, a secret among them, do not belong on a command line.
    command += [word for name in variables for word in ("-x", name)]
    # Should this process be killed, the pipe to the launcher closes and all workers end.
    command += ["--end-with-stdin", sys.executable, "-m", "tfring.launcher.function_worker"]
    process = subprocess.Popen(
        command,
        env={**config.environment(), **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    relays = [
        threading.Thread(target=_relay, args=arguments, daemon=True)
        for arguments in (
            (process.stdout, "stdout", deque[str](maxlen=1)),
            (process.stderr, "stderr", tail),
        )
    ]
    for relay in relays:
        relay.start()
    try:
        status = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        raise LaunchError(f"the workers did not finish within {timeout_s:g} s") from None
    finally:
        _end(process)
        for relay in relays:
            relay.join(_END_TIMEOUT_S)
    return status, "".join(tail)


def _relay(stream: TextIO, target: str, tail: deque[str]) -> None:
    """Copies lines to sys.stdout or sys.stderr, which a notebook has replaced."""
    for line in stream:
        tail.append(line)
        out = getattr(sys, target)
        if out is not None:
            out.write(line)
            out.flush()


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(_END_TIMEOUT_S)
    process.stdin.close()


def _results(exchange: FunctionExchange, np: int, status: int, tail: str) -> list[Any]:
    failure = exchange.first_failure()
    if failure is not None:
        _raise(failure)
    if status != 0:
        raise LaunchError(f"the workers failed with exit status {status}:\n{tail}")
    results = []
    for rank in range(np):
        try:
            results.append(exchange.result(rank))
        except RendezvousTimeoutError:
            raise LaunchError(f"rank {rank} ended without returning from the function") from None
        except Exception as error:
            raise LaunchError(f"the result of rank {rank} cannot be read: {error}") from error
    return results


def _raise(failure: Failure) -> None:
    cause = RankTraceback(failure.rank, failure.text)
    error = failure.exception()
    if not isinstance(error, Exception):
        last = failure.text.strip().splitlines()[-1]
        raise LaunchError(f"rank {failure.rank} failed: {last}") from cause
    if hasattr(error, "add_note"):  # Python 3.11
        error.add_note(f"(raised on rank {failure.rank})")
    raise error from cause
