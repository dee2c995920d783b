"""What the driver tells its workers, through the store."""

from __future__ import annotations

import json
from typing import Any

from tfring.launcher.elastic.roster import Generation
from tfring.launcher.store_place import StorePlace
from tfring.native import StoreClient

# A worker that is slow to look may be some generations behind.
_KEPT = 16


class Announcements:
    """Writes generations where workers wait for them.

    Args:
        place: The job's store.
    """

    def __init__(self, place: StorePlace) -> None:
        self._store = StoreClient(place.host, place.server.port, secret=place.secret)
        self._newest = 0
        self._store.set("elastic/latest", b"0")

    def generation(self, generation: Generation) -> None:
        """Announces who is in the next generation."""
        self._write(
            generation.number,
            {"reason": generation.reason, "members": generation.places},
        )

    def stop(self, reason: str, status: int) -> None:
        """Announces that the job ends, after whatever generation there is."""
        self._write(self._newest + 1, {"stop": {"reason": reason, "status": status}})

    def close(self) -> None:
        """No more."""
        self._store.close()

    def _write(self, number: int, record: dict[str, Any]) -> None:
        self._newest = number
        data = json.dumps({"generation": number, **record}).encode()
        self._store.set(f"elastic/generation/{number}", data)
        self._store.set("elastic/latest", str(number).encode())
        if number > _KEPT:
            self._store.delete(f"elastic/generation/{number - _KEPT}")
