"""Fixtures for ranks on several hosts, which are network namespaces of this machine.

    def body(scale):                       # at module level; runs on every rank
        ...

    def test_something(on_hosts):
        with on_hosts(2, per_host=2, rate_mbit=100) as job:
            assert job.run(body, 2.0) == [...]

Where hosts can't be made, because of missing rights or programs, the tests skip and say why.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from harness.rank_pool import RankPool
from network.hosts import Hosts, why_no_switch, why_not

STORE_PORT = 7900


class Job(RankPool):
    """Ranks on hosts, host by host.

    Args:
        hosts: Where.
        per_host: Number of ranks of each host, or of each by itself.
        settings: Variables of every rank.
    """

    def __init__(
        self, hosts: Hosts, per_host: int | Sequence[int], settings: dict[str, str]
    ) -> None:
        self.hosts = hosts
        counts = [per_host] * hosts.count if isinstance(per_host, int) else list(per_host)
        self.host_of = [host for host, count in enumerate(counts) for _ in range(count)]
        self._counts = counts
        self._secret = secrets.token_hex(16)
        super().__init__(len(self.host_of), bare=True, env=settings)

    def bare_ranks(self) -> list[tuple[list[str], dict[str, str]]]:
        ranks = []
        for rank, host in enumerate(self.host_of):
            local = rank - self.host_of.index(host)
            ranks.append(
                (
                    self.hosts.command(host, []),
                    {
                        "TFRING_RANK": str(rank),
                        "TFRING_SIZE": str(self.np),
                        "TFRING_LOCAL_RANK": str(local),
                        "TFRING_LOCAL_SIZE": str(self._counts[host]),
                        "TFRING_CROSS_RANK": str(host),
                        "TFRING_CROSS_SIZE": str(self.hosts.count),
                        "TFRING_HOST_ID": f"host{host}",
                        "TFRING_STORE": f"{self.hosts.address(0)}:{STORE_PORT}",
                        "TFRING_STORE_SERVE": "1" if rank == 0 else "0",
                        "TFRING_SECRET": self._secret,
                    },
                )
            )
        return ranks


OnHosts = Callable[..., Any]


@pytest.fixture
def on_hosts() -> Iterator[OnHosts]:
    """Starts ranks on new hosts: `on_hosts(count, per_host=, settings=, **of_hosts)`."""

    @contextmanager
    def start(
        count: int,
        *,
        per_host: int | Sequence[int] = 1,
        settings: dict[str, str] | None = None,
        **network: Any,
    ) -> Iterator[Job]:
        switched = network.get("delay_us") or network.get("loss_per_mille")
        if reason := why_no_switch() if switched else why_not():
            pytest.skip(reason)
        with ExitStack() as stack:
            hosts = stack.enter_context(Hosts(count, **network))
            job = Job(hosts, per_host, settings or {})
            stack.callback(job.close)
            yield job

    yield start
