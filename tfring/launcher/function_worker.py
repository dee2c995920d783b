"""A worker of `tfring.run`: fetches the function, calls it, leaves its result."""

from __future__ import annotations

import sys

from tfring import config
from tfring.launcher.function_exchange import (
    SECRET_VARIABLE,
    STORE_VARIABLE,
    Failure,
    FunctionExchange,
)
from tfring.native import StoreClient

_CONNECT_TIMEOUT_S = 60.0


def main() -> int:
    """The exit status: 0 when the function returned."""
    environment = config.environment()
    rank = config.Config.from_environment().rank
    host, _, port = environment[STORE_VARIABLE].rpartition(":")
    with StoreClient(
        host.strip("[]"),
        int(port),
        secret=environment[SECRET_VARIABLE],
        timeout_s=_CONNECT_TIMEOUT_S,
    ) as client:
        exchange = FunctionExchange(client)
        try:
            exchange.put_result(rank, exchange.task().run())
        except BaseException as error:
            # SystemExit too: a worker without a result is a failure to the caller.
            exchange.put_failure(Failure.of(rank, error))
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
