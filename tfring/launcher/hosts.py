"""Which hosts a job has, and which rank runs where: parsing and arithmetic, no I/O.

A host list is `host1:2,host2:2`; a hostfile has one host a line, `host1 slots=2` or
`host1:2`, and comments after `#`. A host without a number has one slot. An IPv6 address
with slots is written `[::1]:2`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tfring.errors import LaunchError

_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.%\w]+\]|[^\s:\[\]]+)(?::(?P<slots>.*))?")
# ssh would take a name that begins with a dash for an option.
_NAME = re.compile(r"[A-Za-z0-9_@.%:][A-Za-z0-9_@.%:\-]*")
_SLOTS_KEY = re.compile(r"slots\s*=\s*(?P<slots>\S*)")


@dataclass(frozen=True)
class Host:
    """A machine and how many workers it takes."""

    name: str
    slots: int


@dataclass(frozen=True)
class Placement:
    """Where one rank runs, with the numbers that its engine needs.

    `cross_rank` is the index of the rank's host and `cross_size` the number of hosts that
    have ranks.
    """

    host: Host
    rank: int
    size: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int


def parse_host_list(text: str) -> list[Host]:
    """Hosts of a `-H` argument.

    Example:
        >>> parse_host_list("one:2,two")
        [Host(name='one', slots=2), Host(name='two', slots=1)]

    Raises:
        LaunchError: An entry is malformed, or a host is named twice.
    """
    entries = [entry.strip() for entry in text.split(",")]
    if entries == [""]:
        raise LaunchError("the host list is empty; expected something like host1:2,host2:2")
    return _without_duplicates((_parse_host(entry, f"host list {text!r}"), "") for entry in entries)


def parse_hostfile(text: str, path: str) -> list[Host]:
    """Hosts of a hostfile's contents; `path` is for messages.

    Raises:
        LaunchError: Names the file and the line that is malformed or names a host again.
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        entry = line.split("#", 1)[0].strip()
        if entry:
            where = f"{path}, line {number}"
            found.append((_parse_line(entry, where), f" ({where})"))
    if not found:
        raise LaunchError(f"the hostfile {path} names no host")
    return _without_duplicates(found)


def assign(hosts: Sequence[Host], np: int | None) -> list[Placement]:
    """Gives ranks to hosts in order, each filled before the next.

    Args:
        hosts: Hosts in the order of the list.
        np: Number of ranks; None for all slots.

    Raises:
        LaunchError: There are fewer slots than ranks.
    """
    slots = sum(host.slots for host in hosts)
    size = slots if np is None else np
    if size > slots:
        listed = ", ".join(f"{host.name}:{host.slots}" for host in hosts)
        raise LaunchError(
            f"-np {size} asks for more workers than the hosts have slots: {listed} have {slots}"
        )
    shares = []
    left = size
    for host in hosts:
        share = min(host.slots, left)
        if share:
            shares.append((host, share))
        left -= share
    placements: list[Placement] = []
    for cross_rank, (host, share) in enumerate(shares):
        for local_rank in range(share):
            placements.append(
                Placement(host, len(placements), size, local_rank, share, cross_rank, len(shares))
            )
    return placements


def _parse_line(entry: str, where: str) -> Host:
    name, *rest = entry.split(None, 1)
    if not rest:
        return _parse_host(entry, where)
    match = _SLOTS_KEY.fullmatch(rest[0])
    if match is None or re.search(r"(^|\]):\d+$|^[^:]+:\d*$", name):
        raise LaunchError(f"{where}: {entry!r} is no host; expected `host slots=2` or `host:2`")
    host = _parse_host(name, where)
    return Host(host.name, _slots(match["slots"], entry, where))


def _parse_host(entry: str, where: str) -> Host:
    if not entry:
        raise LaunchError(f"{where}: an entry is empty; expected host:slots")
    match = _HOST.fullmatch(entry)
    name = match["name"].strip("[]") if match else ""
    if match is None or not _NAME.fullmatch(name):
        raise LaunchError(
            f"{where}: {entry!r} is no host; expected host:slots such as node1:2, "
            "or [::1]:2 for an IPv6 address"
        )
    slots = match["slots"]
    return Host(name, 1 if slots is None else _slots(slots, entry, where))


def _slots(text: str, entry: str, where: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", text) or int(text) == 0:
        raise LaunchError(
            f"{where}: {entry!r} has {text!r} slots; expected a whole number of at least 1"
        )
    return int(text)


def _without_duplicates(found: Iterable[tuple[Host, str]]) -> list[Host]:
    hosts: dict[str, Host] = {}
    for host, where in found:
        if host.name in hosts:
            raise LaunchError(
                f"the host {host.name} is named twice{where}; name it once with all its slots"
            )
        hosts[host.name] = host
    return list(hosts.values())
