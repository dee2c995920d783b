"""Which address of this machine the others can reach, and which names mean this machine."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from tfring.errors import LaunchError

# Nothing is sent there: connecting a datagram socket only picks the route.
_DISCARD_PORT = 9


def is_this_machine(name: str) -> bool:
    """Whether a host's name is this machine's: asks no name server."""
    own = socket.gethostname()
    if name in ("localhost", own, own.split(".")[0]):
        return True
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, name)
        except OSError:
            continue
        # Only an own address can be bound.
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((name, 0))
                return True
            except OSError:
                return False
    return False


def address_towards(hosts: Sequence[str]) -> str:
    """The address of this machine that the hosts see, as far as the route to them tells.

    Args:
        hosts: Names or addresses; at least one.

    Raises:
        LaunchError: None of the names leads anywhere.
    """
    found = ""
    trouble: OSError | None = None
    for host in hosts:
        try:
            entries = socket.getaddrinfo(host, _DISCARD_PORT, type=socket.SOCK_DGRAM)
        except OSError as error:
            trouble = error
            continue
        for family, kind, _, _, target in entries:
            try:
                with socket.socket(family, kind) as probe:
                    probe.connect(target)
                    address = str(probe.getsockname()[0])
            except OSError as error:
                trouble = error
                continue
            # A host that is this machine by another name sees 127.0.0.1; the others do not.
            if not address.startswith("127.") and address != "::1":
                return address
            found = found or address
    if not found:
        raise LaunchError(
            f"no route from this machine to {', '.join(hosts)} ({trouble}); "
            "name the interface to use with --network-interface"
        )
    return found
