"""Who is there, and who is a member: the rules of an elastic job, without processes and clocks.

A worker is *starting* until it says that it is ready; *ready* until a generation has it; then a
*member*; *done* when its training has ended as it should; *leaving* when there is no slot for it
any more. A member that the others have lost is *excluded* from the next generation.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tfring.launcher.elastic.places import Place, assign_ranks, places


class Phase(enum.Enum):
    """What a worker is up to."""

    STARTING = "starting"
    READY = "ready"
    MEMBER = "a member"
    DONE = "done"
    LEAVING = "leaving"
    EXCLUDED = "excluded"


@dataclass
class Worker:
    """A process that the driver has started.

    Attributes:
        number: Of the worker, never used again; "w3" for the workers themselves.
        host, slot: Where.
        phase: See `Phase`.
        lost: Others have lost it, or its host; it is going to be killed.
        raised: It has said that it ends by itself.
        joined: The latest generation that it has joined; 0: none, it has no state yet.
        member_since: When it had joined its first, on the driver's clock.
    """

    number: int
    host: str
    slot: int
    phase: Phase = Phase.STARTING
    lost: bool = False
    raised: bool = False
    joined: int = 0
    member_since: float | None = None

    @property
    def id(self) -> str:
        """What it is called in the store."""
        return f"w{self.number}"


@dataclass(frozen=True)
class Generation:
    """One that is to be announced.

    Attributes:
        number: From 1.
        reason: Why.
        places: By worker id.
    """

    number: int
    reason: str
    places: dict[str, Place]


@dataclass(frozen=True)
class Limits:
    """How many members there may be."""

    least: int
    most: int


@dataclass
class Roster:
    """The workers of a job, and the generation of the moment.

    Attributes:
        limits: How many members there may be.
        workers: Those whose processes exist, by number.
        generation: Number of the newest generation; 0: none yet.
        ranks: In it, by number of the worker; also of those that have gone.
        reasons: Why there has to be another generation.
        finishing: A member has ended as it should, so others will; nobody joins any more.
    """

    limits: Limits
    workers: dict[int, Worker] = field(default_factory=dict)
    generation: int = 0
    ranks: dict[int, int] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    finishing: bool = False
    _next: int = 0

    # ---- What happens ------------------------------------------------------------------

    def start(self, host: str, slot: int) -> Worker:
        """A worker is started."""
        worker = Worker(self._next, host, slot)
        self._next += 1
        self.workers[worker.number] = worker
        return worker

    def ready(self, number: int) -> None:
        """A worker waits for a generation; one that was done is at its next training."""
        worker = self.workers.get(number)
        if worker is not None and worker.phase in (Phase.STARTING, Phase.DONE):
            worker.phase = Phase.READY
            self._settle()

    def joined(self, number: int, generation: int, now: float) -> None:
        """A worker has joined a generation, and has the state of the others."""
        worker = self.workers.get(number)
        if worker is None:
            return
        worker.joined = generation
        if worker.member_since is None:
            worker.member_since = now

    def failed(self, number: int, generation: int, lost: Iterable[int]) -> list[Worker]:
        """A member can't go on in a generation, since it has lost ranks.

        Returns:
            The workers of those ranks that seemed to be well; whoever reports first is believed.
        """
        reporter = self.workers.get(number)
        if reporter is None or reporter.lost or generation != self.generation:
            return []
        self._need(f"{reporter.id} can't go on")
        ranks = set(lost)
        suspects = [
            worker
            for worker in self.workers.values()
            if self.ranks.get(worker.number) in ranks
            and worker.phase is Phase.MEMBER
            and not worker.lost
            and worker is not reporter
        ]
        for worker in suspects:
            self.silent(worker.number)
        return suspects

    def silent(self, number: int) -> Worker:
        """A member does not answer, and can't be waited for."""
        return self._lose(self.workers[number], "does not answer")

    def raised(self, number: int) -> None:
        """A worker ends by itself; its exit status will say whether it should."""
        worker = self.workers.get(number)
        if worker is not None:
            worker.raised = True

    def dying(self, number: int) -> Worker | None:
        """A worker's process is about to have ended; the worker if that costs a member."""
        worker = self.workers.get(number)
        if worker is None or worker.phase is not Phase.MEMBER or worker.lost or worker.raised:
            return None
        return self._lose(worker, "has died")

    def ended(self, number: int, how: str) -> Worker:
        """A worker's process has ended."""
        worker = self.workers.pop(number)
        if worker.phase is Phase.MEMBER and not worker.lost:
            self._need(f"{worker.id} on {worker.host} {how}")
        self._settle()
        return worker

    def _lose(self, worker: Worker, why: str) -> Worker:
        worker.lost = True
        self._need(f"{worker.id} on {worker.host} {why}")
        return worker

    def done(self, number: int) -> list[Worker]:
        """A worker's training has ended as it should, and so will that of the others.

        Returns:
            Workers that are of no use any more: they have no state yet.
        """
        worker = self.workers.get(number)
        if worker is None or worker.phase is not Phase.MEMBER:
            return []
        worker.phase = Phase.DONE
        self.finishing = True
        useless = [w for w in self.workers.values() if w.joined == 0]
        for other in useless:
            other.phase = Phase.LEAVING
        if any(member.joined < self.generation for member in self.members()):
            self._need(f"{worker.id} was done before the others had joined it")
        self._settle()
        return useless

    def finished(self, number: int) -> list[Worker]:
        """A worker's process has ended as it should; the same as of `done`."""
        useless = self.done(number)
        del self.workers[number]
        self._settle()
        return useless

    def _settle(self) -> None:
        """Once nobody is at a training that ends, there may be another."""
        if not self.finishing or self.members():
            return
        self.reasons = []
        phases = {worker.phase for worker in self.workers.values()}
        self.finishing = Phase.READY not in phases and Phase.DONE in phases

    def drain(self, number: int, why: str) -> None:
        """A member's slot is gone: the next generation goes on without it."""
        worker = self.workers[number]
        if worker.phase is Phase.MEMBER:
            self._need(f"{worker.id} leaves: {why}")
        worker.phase = Phase.LEAVING

    def lose_host(self, host: str) -> list[Worker]:
        """The connection to a host's agent is gone, and its workers with it."""
        gone = [worker for worker in self.workers.values() if worker.host == host]
        for worker in gone:
            del self.workers[worker.number]
            if worker.phase is Phase.MEMBER:
                self._need(f"lost {host} with {worker.id}")
        return gone

    # ---- What follows ------------------------------------------------------------------

    def members(self) -> list[Worker]:
        """Those of the generation of the moment that can go on."""
        return [w for w in self.workers.values() if w.phase is Phase.MEMBER and not w.lost]

    def awaited(self) -> list[int]:
        """Members that have not joined the generation of the moment."""
        return [w.number for w in self.members() if w.joined < self.generation]

    def has_state(self) -> bool:
        """Whether somebody is there who has had the state of the training."""
        return any(worker.joined > 0 for worker in self.workers.values())

    def newcomers(self) -> list[Worker]:
        """Those that wait for a place, as far as there is one."""
        if self.finishing:
            return []
        free = self.limits.most - len(self.members())
        waiting = [w for w in self.workers.values() if w.phase is Phase.READY]
        return waiting[: max(0, free)]

    def needs_generation(self) -> bool:
        """Whether the generation of the moment can't or shall not go on."""
        return bool(self.reasons or self.newcomers())

    def started(self) -> int:
        """How many workers there have been."""
        return self._next

    def enough(self) -> bool:
        """Whether there are enough for another generation."""
        there = len(self.members()) + len(self.newcomers())
        return there >= (1 if self.finishing else self.limits.least)

    def next_generation(self) -> Generation:
        """Makes members of those who can be, and gives them places."""
        newcomers = self.newcomers()
        if newcomers and self.generation > 0:
            self._need(f"{_listed(newcomers)} {'join' if len(newcomers) > 1 else 'joins'}")
        reason = "; ".join(self.reasons) if self.generation > 0 else "the job begins"
        chosen = [*self.members(), *newcomers]
        for worker in self.workers.values():
            if worker.phase is Phase.MEMBER and worker.lost:
                worker.phase = Phase.EXCLUDED
        for worker in chosen:
            worker.phase = Phase.MEMBER
        self.ranks = assign_ranks([worker.number for worker in chosen], self.ranks)
        self.generation += 1
        self.reasons = []
        given = places(self.ranks, {worker.number: worker.host for worker in chosen})
        return Generation(
            self.generation, reason, {worker.id: given[worker.number] for worker in chosen}
        )

    def _need(self, reason: str) -> None:
        if reason not in self.reasons:
            self.reasons.append(reason)


def _listed(workers: Sequence[Worker]) -> str:
    return ", ".join(worker.id for worker in workers)
