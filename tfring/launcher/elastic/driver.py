"""An elastic job: workers may be lost and found while it runs."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from tfring.errors import LaunchError
from tfring.launcher.addresses import is_this_machine
from tfring.launcher.elastic.announcements import Announcements
from tfring.launcher.elastic.discovery import Discovery, FixedHosts
from tfring.launcher.elastic.restarts import Restarts
from tfring.launcher.elastic.roster import Limits, Phase, Roster, Worker
from tfring.launcher.environment import placement_variables
from tfring.launcher.host_link import HostLink, LocalLink, SshLink
from tfring.launcher.hosts import Host, Placement
from tfring.launcher.job import Job, JobSpec, how_it_ended
from tfring.launcher.messages import Kind, Message
from tfring.launcher.output import Output
from tfring.launcher.stop_signals import StopSignals
from tfring.launcher.worker import WorkerSpec

# Deaths that belong together become known within this time of each other.
_TOGETHER_S = 0.005
# Workers that become ready at about the same time join together: each joining stops the others.
_JOIN_TOGETHER_S = 0.3
# What is ready begins without those that are not, if there are enough.
_START_WINDOW_S = 30.0
# A worker that others have lost and that has not ended is given so long to do so by itself.
_SUSPICION_S = 0.2
# For the last commits, when the job stops.
_SAVE_S = 60.0
# A worker that is not needed any more has so long to leave.
_LEAVE_S = 30.0
# As shells report the end of their child by a signal that nobody sends to end a job.
_CRASHES = (
    *(signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT),
    *(signal.SIGILL, signal.SIGFPE),
)


@dataclass(frozen=True)
class ElasticSpec:
    """What an elastic job has beyond others.

    Attributes:
        limits: How many members there may be.
        hosts: Where the hosts come from.
        patience_s: How long to wait for enough members.
        reset_limit: How many changes of membership there may be; None: any number.
        restart_on_error: Replace workers that fail by an error of their own, too.
        cooldown_s: How long a host is set aside at first that loses workers again and again.
    """

    limits: Limits
    hosts: Discovery | FixedHosts
    patience_s: float = 600.0
    reset_limit: int | None = None
    restart_on_error: bool = False
    cooldown_s: float = 10.0


class ElasticJob(Job):
    """Starts workers, announces generations of them, and replaces those that are lost.

    Args:
        spec: What to run; its placements are of no use here.
        elastic: How.
        output: Where workers' output goes.
        signals: Signals received.
    """

    def __init__(
        self, spec: JobSpec, elastic: ElasticSpec, output: Output, signals: StopSignals
    ) -> None:
        super().__init__(spec, output, signals)
        self._elastic = elastic
        self._roster = Roster(elastic.limits)
        self._restarts = Restarts(elastic.cooldown_s)
        self._announcements: Announcements | None = None
        self._hosts: dict[str, Host] = {}  # as they shall be
        self._due: dict[str, tuple[float, Callable[[], None]]] = {}  # by name: when, what
        self._succeeded = False  # a worker has
        self._stopping = False  # the workers have been told to save and to end
        self._discovery_failed = ""
        self._all_ended = False

    # ---- Starting ---------------------------------------------------------------------

    def _start_agents(self) -> None:
        # First, while there is one thread and no other pipe to inherit; hosts may come later.
        self._add(LocalLink(Host("localhost", 0)))
        hosts = self._elastic.hosts.wait()
        self._local_name = next((h.name for h in hosts if is_this_machine(h.name)), "localhost")
        remote = [host.name for host in hosts if host.name != self._local_name]
        if remote:
            self._spec.ssh.check()
        self._serve_store(remote)
        assert self._store is not None
        self._announcements = Announcements(self._store)
        self._take_hosts(hosts)
        self._wait_for_enough()

    def _workers_in_all(self) -> int:
        return self._roster.started()

    def _take_hosts(self, hosts: list[Host]) -> None:
        """These are the hosts from now on."""
        self._hosts = {host.name: host for host in hosts}
        for worker in list(self._roster.workers.values()):
            host = self._hosts.get(worker.host)
            if host is None or worker.slot >= host.slots:
                self._drain(worker)

    def _drain(self, worker: Worker) -> None:
        if worker.phase is Phase.LEAVING:
            return
        was_member = worker.phase is Phase.MEMBER
        self._roster.drain(worker.number, f"there is no slot for it on {worker.host} any more")
        if not was_member:
            self._kill(worker)
        else:
            number = worker.number
            self._later(f"leave {number}", _LEAVE_S, lambda: self._kill_number(number))

    def _link_of(self, name: str) -> HostLink | None:
        local = name == self._local_name
        for link in self._links:
            if link.host.name == name or (local and isinstance(link, LocalLink)):
                return link
        return None

    def _fill_slots(self, now: float) -> None:
        """Starts workers where there is room for them."""
        if self._succeeded or self._stopping or self._status is not None:
            return
        running = [w for w in self._roster.workers.values() if w.phase is not Phase.LEAVING]
        room = self._elastic.limits.most - len(running)
        taken = {(w.host, w.slot) for w in self._roster.workers.values()}
        for host in self._hosts.values():
            for slot in range(host.slots):
                if room <= 0:
                    return
                if (host.name, slot) in taken:
                    continue
                if not self._restarts.may_start(host.name, slot, now):
                    continue
                link = self._link_to(host, now)
                if link is not None and link.ready:
                    self._start_worker(link, host, slot, now)
                    room -= 1

    def _link_to(self, host: Host, now: float) -> HostLink | None:
        link = self._link_of(host.name)
        if link is None and not self._restarts.host_is_aside(host.name, now):
            link = SshLink(host, self._spec.ssh)
            self._add(link)
            self._later(
                f"answer {host.name}",
                self._spec.start_timeout_s,
                lambda: self._expect_answer(host.name),
            )
        return link

    def _expect_answer(self, name: str) -> None:
        link = self._link_of(name)
        if link is not None and not link.ready:
            self._set_aside(link, f"no answer within {self._spec.start_timeout_s:g} s")

    def _start_worker(self, link: HostLink, host: Host, slot: int, now: float) -> None:
        assert self._store is not None
        worker = self._roster.start(host.name, slot, now)
        # For the time being: the first ones begin in this order, later ones at the end.
        rank = worker.number if self._roster.generation == 0 else len(self._roster.ranks)
        place = Placement(
            host, rank, max(rank + 1, self._elastic.limits.least), slot, host.slots, 0, 1
        )
        local = isinstance(link, LocalLink)
        variables = {
            **({} if local else self._spec.remote_variables),
            **self._spec.variables,
            **placement_variables(place),
            **self._store.variables(),
            **self._timeline.variables(worker.number, local=local),
            "TFRING_ELASTIC": "1",
            "TFRING_WORKER_ID": worker.id,
            "TFRING_HOST_ID": host.name,
            "TFRING_GENERATION": str(self._roster.generation),
        }
        spec = WorkerSpec(worker.number, list(self._spec.command), variables, self._spec.directory)
        self._unfinished.add(worker.number)
        link.start([spec], slots=host.slots, stay=True)

    # ---- What happens -----------------------------------------------------------------

    def _seconds_to_wait(self) -> float | None:
        now = time.monotonic()
        if self._status is not None:
            return max(0.0, self._give_up - now)
        times = [when for when, _ in self._due.values()]
        times += [self._restarts.next_start(now), self._elastic.hosts.next_look()]
        earliest = min(times)
        return None if earliest == float("inf") else max(0.0, earliest - now)

    def _act(self) -> None:
        super()._act()
        if self._status is not None:
            return
        now = time.monotonic()
        self._discover()
        for name, (when, what) in list(self._due.items()):
            if now >= when and name in self._due:
                del self._due[name]
                what()
        self._fill_slots(now)
        self._consider(now)
        self._end_if_done()

    def _start_when_all_answer(self, now: float) -> None:
        """Nothing: each host's workers start when it answers."""

    def _later(self, name: str, seconds: float, what: Callable[[], None]) -> None:
        """Has something done in a while; once for each name."""
        self._due.setdefault(name, (time.monotonic() + seconds, what))

    def _discover(self) -> None:
        try:
            hosts = self._elastic.hosts.poll()
        except LaunchError as error:
            if str(error) != self._discovery_failed:
                self._discovery_failed = str(error)
                self._output.say(f"{error}; the hosts stay as they are")
            return
        if hosts is None:
            return
        self._discovery_failed = ""
        if {host.name: host for host in hosts} != self._hosts:
            listed = ", ".join(f"{host.name}:{host.slots}" for host in hosts) or "none"
            self._output.say(f"the hosts are now {listed}")
            self._take_hosts(hosts)

    def _obey(self, link: HostLink, message: Message) -> None:
        if message.kind is Kind.WORD:
            self._hear(message.rank, json.loads(message.payload))
        elif message.kind is Kind.HELLO:
            self._due.pop(f"answer {link.host.name}", None)
        else:
            super()._obey(link, message)

    def _hear(self, number: int, word: dict[str, object]) -> None:
        """A worker has said something."""
        kind = word.get("kind")
        if kind == "ready":
            self._roster.ready(number)
        elif kind == "failed":
            lost = word["lost"]
            assert isinstance(lost, list)
            for suspect in self._roster.failed(number, int(str(word["generation"])), lost):
                self._suspect(suspect)
        elif kind == "joined" and self._spec.verbose:
            seconds = word["seconds"]
            assert isinstance(seconds, dict)
            parts = ", ".join(f"{part} {1000 * s:.1f} ms" for part, s in seconds.items())
            self._output.say(
                f"w{number} is rank {word['rank']} of generation {word['generation']} ({parts})"
            )
        elif kind == "saved":
            self._output.say(f"w{number} has saved {word['path']}")

    def _suspect(self, worker: Worker) -> None:
        """The others can't go on with it; if it is still there it has to go."""
        self._later(
            f"suspect {worker.number}", _SUSPICION_S, lambda: self._kill_number(worker.number)
        )

    def _kill_number(self, number: int) -> None:
        worker = self._roster.workers.get(number)
        if worker is not None:
            self._kill(worker)

    def _kill(self, worker: Worker) -> None:
        link = self._link_of(worker.host)
        if link is not None:
            link.kill(worker.number)

    def _exited(self, link: HostLink, rank: int, status: int) -> None:
        worker = self._roster.workers.get(rank)
        if worker is None or self._status is not None:
            return
        how = how_it_ended(status)
        if self._spec.verbose or status != 0:
            self._output.say(f"{worker.id} on {worker.host} {how}")
        self._roster.ended(rank, how)
        if worker.phase is Phase.LEAVING or self._stopping:
            return
        if status == 0:
            self._succeed(worker)
        elif _is_own_error(status) and not self._elastic.restart_on_error:
            self._failed_rank = rank
            self._end(status, f"{worker.id} has failed; ending the others (--restart-on-error)")
        else:
            now = time.monotonic()
            seconds = self._restarts.lost(worker.host, worker.slot, now - worker.started, now)
            if seconds:
                self._output.say(f"{worker.host} gets no workers for {seconds:g} s")

    def _succeed(self, worker: Worker) -> None:
        """A worker has ended as it should: the others will, and nobody takes its place."""
        self._succeeded = True
        if worker.phase is Phase.MEMBER:
            # That it has gone is no reason to interrupt the others on their last steps.
            self._roster.reasons = []
            for useless in self._roster.finish():
                useless.phase = Phase.LEAVING
                self._kill(useless)

    def _not_started(self, rank: int, status: int, text: str) -> None:
        """A host could not start a worker."""
        if rank in self._roster.workers:
            self._roster.ended(rank, "could not be started")
        self._end(status, text)

    # ---- Generations ------------------------------------------------------------------

    def _consider(self, now: float) -> None:
        """Announces another generation if there has to be one, and can be."""
        roster = self._roster
        if self._stopping or not roster.needs_generation():
            return
        if not roster.enough():
            self._wait_for_enough()
            return
        if roster.generation == 0:
            wait_s = 0.0 if self._all_ready() else _START_WINDOW_S
        else:
            wait_s = _TOGETHER_S if roster.reasons else self._time_to_join()
        name = f"announce {roster.generation} {'change' if roster.reasons else 'join'}"
        if wait_s > 0 and name not in self._due:
            self._later(name, wait_s, self._announce)
        elif wait_s == 0:
            self._announce()

    def _all_ready(self) -> bool:
        starting = [w for w in self._roster.workers.values() if w.phase is Phase.STARTING]
        unanswered = [link for link in self._links if not link.ready]
        return not starting and not unanswered

    def _time_to_join(self) -> float:
        starting = any(w.phase is Phase.STARTING for w in self._roster.workers.values())
        return _JOIN_TOGETHER_S if starting else 0.0

    def _announce(self) -> None:
        roster = self._roster
        if self._stopping or not roster.needs_generation() or not roster.enough():
            return
        limit = self._elastic.reset_limit
        if limit is not None and roster.generation > limit:
            self._stop(f"the membership has changed {limit} times (--reset-limit)")
            return
        generation = roster.next_generation()
        for name in [n for n in self._due if n == "enough" or n.startswith("announce")]:
            del self._due[name]
        assert self._announcements is not None
        self._announcements.generation(generation)
        if self._spec.verbose or generation.number > 1:
            size = len(generation.places)
            text = f"generation {generation.number}: {size} workers ({generation.reason})"
            self._output.say(text)

    def _wait_for_enough(self) -> None:
        self._later("enough", self._elastic.patience_s, self._give_up_waiting)

    def _give_up_waiting(self) -> None:
        if self._roster.enough() and self._roster.generation > 0:
            return
        there = len(self._roster.members()) + len(self._roster.newcomers())
        self._stop(
            f"{there} workers for {self._elastic.patience_s:g} s, at least "
            f"{self._elastic.limits.least} are needed (--min-np, --elastic-timeout)"
        )

    def _stop(self, reason: str) -> None:
        """Has the workers save what they have, and end."""
        self._stopping = True
        self._output.say(f"{reason}; the job stops")
        assert self._announcements is not None
        self._announcements.stop(reason, 1)
        for worker in self._roster.workers.values():
            if worker.phase is not Phase.MEMBER or worker.lost:
                self._kill(worker)
        self._later(
            "save", _SAVE_S, lambda: self._end(1, "not all workers have ended by themselves")
        )

    # ---- Ending -----------------------------------------------------------------------

    def _lost(self, link: HostLink) -> None:
        if self._status is not None:
            super()._lost(link)
            return
        if isinstance(link, LocalLink):
            self._close(link)
            self._end(1, "the agent of this machine has ended")
            return
        self._set_aside(link, "lost" if link.ready else "ssh has ended")

    def _set_aside(self, link: HostLink, why: str) -> None:
        """A host that can't be reached."""
        name = link.host.name
        said = list(link.last_words)
        link.give_up()
        self._close(link)
        gone = self._roster.lose_host(name)
        self._unfinished -= {worker.number for worker in gone}
        seconds = self._restarts.host_lost(name, time.monotonic())
        self._output.say(
            "\n  ".join([f"{name}: {why}; it gets no workers for {seconds:g} s", *said])
        )

    def _end_if_done(self) -> None:
        if self._roster.workers or self._all_ended:
            return
        if self._stopping:
            self._all_ended = True
            self._end(1, "all workers have ended")
        elif self._succeeded:
            self._all_ended = True
            self._finish(0)


def _is_own_error(status: int) -> bool:
    """Whether a worker ended by an error of its own, and not because something killed it."""
    return status > 0 and status - 128 not in _CRASHES
