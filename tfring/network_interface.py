"""Addresses of this host's network interfaces."""

from __future__ import annotations

import fcntl
import socket
import struct

from tfring.errors import InvalidArgumentError

_SIOCGIFADDR = 0x8915  # Linux, netdevice(7)


def address_of(interface: str) -> str:
    """The IPv4 address of an interface such as "eth0".

    Raises:
        InvalidArgumentError: There is no such interface, or it has no IPv4 address.
    """
    request = struct.pack("256s", interface.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
        except OSError as error:
            known = ", ".join(name for _, name in socket.if_nameindex())
            raise InvalidArgumentError(
                f"network interface {interface!r}: {error.strerror}; expected one of {known}, "
                "with an IPv4 address"
            ) from None
    return socket.inet_ntoa(answer[20:24])
