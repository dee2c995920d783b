"""Where a job's workers meet: a store in the launcher, at an address that all hosts reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfring.launcher.addresses import address_towards
from tfring.native import StoreServer
from tfring.network_interface import address_of


@dataclass(frozen=True)
class StorePlace:
    """A store being served.

    Attributes:
        host: Address of this machine, as workers shall use it.
        secret: What workers must know.
        server: The server.
    """

    host: str
    secret: str
    server: StoreServer

    @classmethod
    def serve(cls, remote_hosts: Sequence[str], *, interface: str, secret: str) -> StorePlace:
        """Starts a store on any free port.

        Args:
            remote_hosts: Hosts other than this one, by name or address.
            interface: Network interface to be reached at; "" to find it out.
            secret: The job's secret.

        Raises:
            TfringError: No address leads to the hosts, or none can be had.
        """
        if interface:
            host = address_of(interface)
        elif remote_hosts:
            host = address_towards(remote_hosts)
        else:
            host = "127.0.0.1"
        return cls(host, secret, StoreServer(host, 0, secret=secret))

    @property
    def address(self) -> str:
        """host:port; an IPv6 address in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.server.port}"

    def variables(self) -> dict[str, str]:
        """What a worker's environment needs to find the store."""
        return {
            "TFRING_STORE": self.address,
            "TFRING_SECRET": self.secret,
            "TFRING_STORE_SERVE": "0",
            "TFRING_GENERATION": "0",
        }

    def stop(self) -> None:
        """Stops serving."""
        self.server.stop()
