"""Measured times of each algorithm, for the cost model."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.group import Group
from benchmarks.launch import Launch, raw_engines
from benchmarks.network_launch import Loopback, Placement
from benchmarks.rounds import Contestant, Effort, measure
from benchmarks.sections import say
from benchmarks.workloads import KB, MB, single, size_text
from tests.network.hosts import Hosts, why_not

# What of a link's nominal rate carries tensors: Ethernet, IP and TCP headers take the rest.
PAYLOAD_SHARE = 0.941
# Between namespaces without a limit no wire is in the way, just cores.
NO_WIRE = 1e-15


@dataclass(frozen=True)
class Network:
    """Hosts, and what joins them.

    Attributes:
        hosts: How many.
        per_host: Ranks of each.
        rate_mbit: Of a host's connection, each way; 0: without limit.
        cores: Of a host; 0: one for each rank.
        loopback: Hosts in name only.
    """

    hosts: int
    per_host: int
    rate_mbit: float = 0
    cores: float = 0
    loopback: bool = False

    @property
    def ranks(self) -> int:
        return self.hosts * self.per_host

    def __str__(self) -> str:
        if self.hosts == 1:
            return f"1 host x {self.per_host}"
        rate = f"{self.rate_mbit / 1000:g} Gbit/s" if self.rate_mbit else "no limit"
        rate = "loopback" if self.loopback else rate
        return f"{self.hosts} {'host' if self.hosts == 1 else 'hosts'} x {self.per_host}, {rate}"

    def query(self, size: int) -> str:
        """A line for `tfring_cost`."""
        wire = 8e-6 / self.rate_mbit / PAYLOAD_SHARE if self.rate_mbit else NO_WIRE
        return f"{self.hosts} {self.per_host} {size} {wire:.6g} {self.cores:.6g}"


@dataclass(frozen=True)
class Point:
    """How long an allreduce takes.

    Attributes:
        network: Where.
        algorithm: As `tfring_cost` calls it.
        bytes: Of the buffer, float32.
        seconds: The least of all batches: what else happens on the machine is not modelled.
    """

    network: Network
    algorithm: str
    bytes: int
    seconds: float


# Option of the engine to the names of its algorithms: on flat networks, and on others.
_ALGORITHMS = {
    "exchange": ("exchange", "leaders exchange"),
    "doubling": ("doubling", "leaders doubling"),
    "direct": ("hierarchical direct", "hierarchical direct"),
    "ring": ("ring", "hierarchical ring"),
}


# These send the whole buffer at once: nobody wants them for large ones.
_SEND_ALL = ("exchange", "doubling")
_LARGEST_WHOLE = MB


def algorithm_of(option: str, network: Network) -> str:
    """Which algorithm that value of `allreduce_algorithm` stands for there."""
    if option == "direct" and network.hosts == 1:
        return "direct"
    return _ALGORITHMS[option][network.hosts > 1 and network.per_host > 1]


def options_of(network: Network) -> list[str]:
    """The values that make sense there."""
    if network.hosts == 1:
        return ["exchange", "doubling", "direct"]
    return list(_ALGORITHMS)


def sizes_of(network: Network, quick: bool) -> Sequence[int]:
    """Bytes to measure."""
    if quick:
        return (4 * KB, MB)
    if network.rate_mbit:
        return (KB, 16 * KB, 128 * KB, MB, 8 * MB)
    return (KB, 4 * KB, 16 * KB, 64 * KB, 256 * KB, MB, 8 * MB, 64 * MB)


def networks(quick: bool) -> list[Network]:
    """Those that can be made here: ranks of one host, loopback, and namespaces for root.

    All hosts have the cores of this one machine, so each has a part of them.
    """
    cores = len(os.sched_getaffinity(0))
    found = [Network(1, ranks, cores=cores) for ranks in ((2,) if quick else (2, 4, 8))]
    found.append(Network(2, 1, cores=cores / 2, loopback=True))
    if why_not():
        say(f"left out: hosts: {why_not()}")
        return found
    shapes = [(2, 1, 1000)] if quick else [(2, 1, 0), (4, 1, 0), (2, 2, 0), (2, 1, 1000)]
    shapes += [] if quick else [(4, 1, 1000), (2, 2, 1000)]
    return found + [Network(h, p, rate, cores / h) for h, p, rate in shapes]


def _launches(network: Network, stack: ExitStack) -> list[Launch]:
    """One for each algorithm."""
    if network.hosts == 1:
        base = next(launch for launch in raw_engines() if launch.name == "tfring")
    else:
        made = (
            Loopback(network.hosts)
            if network.loopback
            else Hosts(network.hosts, rate_mbit=network.rate_mbit)
        )
        (base,) = Placement(stack.enter_context(made), network.per_host).launches(["tfring"])
    return [
        dataclasses.replace(base, name=option, variables={"TFRING_ALLREDUCE_ALGORITHM": option})
        for option in options_of(network)
    ]


def measure_points(network: Network, effort: Effort, quick: bool) -> Iterator[Point]:
    """Each algorithm at each size.

    Raises:
        GroupError: A rank failed.
    """
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        groups = {}
        for launch in _launches(network, stack):
            groups[launch.name] = Group(launch, network.ranks, directory)
            stack.callback(groups[launch.name].stop)
        for size in sizes_of(network, quick):
            turns = {
                option: Contestant(group, single(size))
                for option, group in groups.items()
                if size <= _LARGEST_WHOLE or option not in _SEND_ALL
            }
            times = measure(turns, effort)
            cells = [f"{option} {1000 * t.least:.4g}" for option, t in times.items()]
            say(f"{network}: {size_text(size)}: {', '.join(cells)} ms")
            for option, one in times.items():
                yield Point(network, algorithm_of(option, network), size, one.least)
