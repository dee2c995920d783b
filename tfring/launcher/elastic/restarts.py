"""When a slot may have another worker after one was lost, and when a host is set aside."""

from __future__ import annotations

from dataclasses import dataclass, field

# A worker that has been a member for so long was not lost because of its slot or host.
_PROVEN_S = 10.0
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
# So many losses in a row, none of a worker that had proven itself, set a host aside.
_LOSSES = 3
_LONGEST_COOLDOWNS = 32  # as a multiple of the first


@dataclass
class _Slot:
    losses: int = 0
    free_from: float = 0.0


@dataclass
class _Host:
    losses: int = 0
    cooldowns: int = 0
    aside_until: float = 0.0
    slots: dict[int, _Slot] = field(default_factory=dict)


class Restarts:
    """Keeps the count of losses.

    The first replacement in a slot starts at once, each further one after twice the pause. A
    host that loses workers again and again gets none for a while, twice as long each time.

    Args:
        cooldown_s: The first such while.
    """

    def __init__(self, cooldown_s: float) -> None:
        self._cooldown_s = cooldown_s
        self._hosts: dict[str, _Host] = {}

    def lost(self, host: str, slot: int, member_s: float, now: float) -> float:
        """A worker was lost.

        Args:
            host, slot: Where.
            member_s: How long it had been a member; 0: never.
            now: The time.

        Returns:
            For how many seconds its host is set aside; mostly 0.
        """
        known = self._hosts.setdefault(host, _Host())
        place = known.slots.setdefault(slot, _Slot())
        if member_s >= _PROVEN_S:
            known.losses = known.cooldowns = place.losses = 0
        pause = 0.0
        if place.losses > 0:
            pause = min(_FIRST_PAUSE_S * 2 ** (place.losses - 1), _LONGEST_PAUSE_S)
        place.losses += 1
        place.free_from = now + pause
        known.losses += 1
        return self._set_aside(known, now) if known.losses > _LOSSES else 0.0

    def host_lost(self, host: str, now: float) -> float:
        """A host does not answer. For how many seconds it is set aside."""
        return self._set_aside(self._hosts.setdefault(host, _Host()), now)

    def may_start(self, host: str, slot: int, now: float) -> bool:
        """Whether a worker may start there now."""
        return now >= self._from(host, slot)

    def host_is_aside(self, host: str, now: float) -> bool:
        """Whether a host gets no workers for a while."""
        return host in self._hosts and now < self._hosts[host].aside_until

    def next_start(self, now: float) -> float:
        """When the next slot or host is free again; infinity if all are."""
        times = [
            self._from(host, slot) for host, known in self._hosts.items() for slot in known.slots
        ]
        times += [known.aside_until for known in self._hosts.values()]
        return min((time for time in times if time > now), default=float("inf"))

    def _set_aside(self, known: _Host, now: float) -> float:
        seconds = self._cooldown_s * min(2**known.cooldowns, _LONGEST_COOLDOWNS)
        known.aside_until = now + seconds
        known.cooldowns += 1
        known.losses = 0
        return seconds

    def _from(self, host: str, slot: int) -> float:
        known = self._hosts.get(host)
        if known is None:
            return 0.0
        place = known.slots.get(slot)
        return max(known.aside_until, 0.0 if place is None else place.free_from)
