"""The hosts and workers of an elastic job: where there is room, and what is started there."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from tfring.errors import LaunchError
from tfring.launcher.addresses import is_this_machine
from tfring.launcher.elastic.discovery import Discovery, FixedHosts
from tfring.launcher.elastic.restarts import Restarts
from tfring.launcher.elastic.roster import Limits, Phase, Roster, Worker
from tfring.launcher.environment import placement_variables
from tfring.launcher.host_link import HostLink, LocalLink, SshLink
from tfring.launcher.hosts import Host, Placement
from tfring.launcher.job import Job
from tfring.launcher.job_spec import JobSpec
from tfring.launcher.output import Output
from tfring.launcher.stop_signals import StopSignals
from tfring.launcher.worker import WorkerSpec

_LOOPBACK = ("127.0.0.1", "::1")
# A worker that is not needed any more has so long to leave.
_LEAVE_S = 30.0
# A host that has not ended a worker so long after it was told to can't be reached any more.
_KILL_S = 5.0


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


class Fleet(Job):
    """Keeps a worker in every slot, as far as that is wanted.

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
        self._hosts: dict[str, Host] = {}  # as they shall be
        self._local_name = "localhost"  # what this machine is called among them
        self._due: dict[str, tuple[float, Callable[[], None]]] = {}  # by name: when, what
        self._discovery_failed = ""
        self._succeeded = False  # a worker has ended as it should

    def _workers_in_all(self) -> int:
        return self._roster.started()

    def _called(self, rank: int) -> str:
        return f"w{rank}"

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
        self._take_hosts(hosts)

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
                    self._start_worker(link, host, slot)
                    room -= 1

    def _link_to(self, host: Host, now: float) -> HostLink | None:
        link = self._link_of(host.name)
        if link is None and not self._restarts.host_is_aside(host.name, now):
            if not self._reaches_store(host.name):
                self._restarts.host_lost(host.name, now)
                return None
            link = SshLink(host, self._spec.ssh)
            self._add(link)
            self._later(
                f"answer {host.name}",
                self._spec.start_timeout_s,
                lambda: self._expect_answer(host.name),
            )
        return link

    def _reaches_store(self, name: str) -> bool:
        """Whether workers of a host that comes later can meet the others; says why not."""
        assert self._store is not None
        if self._store.host not in _LOOPBACK or _is_loopback(name):
            return True
        self._output.say(
            f"{name} can't reach this machine at {self._store.host}, which was enough for the "
            "hosts that there were first: give --network-interface"
        )
        return False

    def _expect_answer(self, name: str) -> None:
        link = self._link_of(name)
        if link is not None and not link.ready:
            self._set_aside(link, f"no answer within {self._spec.start_timeout_s:g} s")

    def _start_worker(self, link: HostLink, host: Host, slot: int) -> None:
        assert self._store is not None
        worker = self._roster.start(host.name, slot)
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

    def _kill_number(self, number: int) -> None:
        worker = self._roster.workers.get(number)
        if worker is not None:
            self._kill(worker)

    def _kill(self, worker: Worker) -> None:
        link = self._link_of(worker.host)
        if link is not None:
            link.kill(worker.number)
            number = worker.number
            self._later(f"kill {number}", _KILL_S, lambda: self._expect_end(number))

    def _expect_end(self, number: int) -> None:
        worker = self._roster.workers.get(number)
        link = self._link_of(worker.host) if worker is not None else None
        if link is not None and not isinstance(link, LocalLink):
            self._set_aside(link, f"w{number} has not ended within {_KILL_S:g} s")

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


def _is_loopback(name: str) -> bool:
    """Whether it is another name of this machine."""
    try:
        return socket.gethostbyname(name) in _LOOPBACK
    except OSError:
        return False
