"""Bad networks: losses, a slow link, a host that vanishes. Right results or an error, no hang."""

from __future__ import annotations

import time
from typing import Any

import pytest

HEARTBEAT_S = 2.0


def reduce_some(rounds: int, count: int) -> None:
    import numpy as np

    import tfring
    from tfring import arrays
    from tfring.reduce_op import ReduceOp

    total = sum(range(1, tfring.size() + 1))
    for number in range(rounds):
        for size in (10, count):
            [result] = arrays.allreduce_arrays(
                [np.full(size, tfring.rank() + 1, np.float32)],
                op=ReduceOp.SUM,
                name=f"{size}/{number % 2}",
            )
            assert (result == total).all()


@pytest.mark.parametrize(("hosts", "per_host"), [(2, 1), (4, 1), (2, 2)])
def test_losses(on_hosts: Any, hosts: int, per_host: int) -> None:
    with on_hosts(hosts, per_host=per_host, delay_us=50, loss_per_mille=10) as job:
        job.run(reduce_some, 4, 500_000)


def test_delay(on_hosts: Any) -> None:
    with on_hosts(3, rate_mbit=1000, delay_us=1000) as job:
        job.run(reduce_some, 4, 500_000)


def test_one_link_at_a_tenth_of_the_rate(on_hosts: Any) -> None:
    with on_hosts(3, rate_mbit=[1000, 1000, 100]) as job:
        job.run(reduce_some, 3, 500_000)


def reduce_until_it_fails(directory: str) -> tuple[str, str]:
    """The error of a job one host of which vanishes."""
    from pathlib import Path

    import numpy as np

    import tfring
    from tfring import arrays

    number = 0
    while True:
        try:
            arrays.allreduce_arrays([np.ones(1000, np.float32)], name="again")
        except tfring.TfringError as error:
            return type(error).__name__, str(error)
        number += 1
        if number == 10:
            Path(directory, f"rank{tfring.rank()}").touch()
        time.sleep(0.01)


@pytest.mark.parametrize("delay_us", [0, 50])
def test_a_host_that_vanishes_is_named(on_hosts: Any, tmp_path: Any, delay_us: int) -> None:
    import threading

    settings = {"TFRING_HEARTBEAT_TIMEOUT_S": str(HEARTBEAT_S)}
    with on_hosts(3, settings=settings, delay_us=delay_us) as job:

        def cut_when_all_run() -> None:
            deadline = time.monotonic() + 60
            while len(list(tmp_path.iterdir())) < job.np and time.monotonic() < deadline:
                time.sleep(0.05)
            job.hosts.cut(2)

        cutting = threading.Thread(target=cut_when_all_run)
        cutting.start()
        errors = job.run(reduce_until_it_fails, str(tmp_path), timeout_s=90)
        cutting.join()
    for kind, message in errors[:2]:
        assert kind == "PeerLostError"
        assert "rank 2" in message and "no sign of life" in message
    # The one that is cut off loses the others.
    assert errors[2][0] == "PeerLostError"
