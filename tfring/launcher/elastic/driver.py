"""An elastic job: workers may be lost and found while it runs."""

from __future__ import annotations

import json
import signal
import time

from tfring.launcher.elastic.announcements import Announcements
from tfring.launcher.elastic.fleet import ElasticSpec, Fleet
from tfring.launcher.elastic.roster import Phase, Worker
from tfring.launcher.elastic.silence import Silence
from tfring.launcher.host_link import HostLink, LocalLink
from tfring.launcher.job_spec import JobSpec
from tfring.launcher.messages import Kind, Message
from tfring.launcher.output import Output
from tfring.launcher.stop_signals import StopSignals
from tfring.launcher.worker import how_it_ended

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
# As shells report the end of their child by a signal that nobody sends to end a job.
_CRASHES = (
    *(signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT),
    *(signal.SIGILL, signal.SIGFPE),
)


class ElasticJob(Fleet):
    """Announces generations of workers, and tells lost ones from those that have failed.

    Args:
        spec: What to run; its placements are of no use here.
        elastic: How.
        output: Where workers' output goes.
        signals: Signals received.
    """

    def __init__(
        self, spec: JobSpec, elastic: ElasticSpec, output: Output, signals: StopSignals
    ) -> None:
        super().__init__(spec, elastic, output, signals)
        self._announcements: Announcements | None = None
        self._silence = Silence(spec.heartbeat_timeout_s)
        self._stopping = False  # the workers have been told to save and to end
        self._all_ended = False

    def run(self) -> int:
        """The exit status for `tfringrun`.

        Raises:
            TfringError: The job could not be begun.
        """
        try:
            return super().run()
        finally:
            self._elastic.hosts.close()

    def _start_agents(self) -> None:
        super()._start_agents()
        assert self._store is not None
        self._announcements = Announcements(self._store)
        patience_s = max(self._elastic.patience_s, self._spec.start_timeout_s)
        self._later("enough", patience_s, self._give_up_waiting)

    # ---- What happens -----------------------------------------------------------------

    def _seconds_to_wait(self) -> float | None:
        now = time.monotonic()
        if self._status is not None:
            return max(0.0, self._give_up - now)
        times = [when for when, _ in self._due.values()]
        times += [self._restarts.next_start(now), self._elastic.hosts.next_look()]
        times.append(self._silence.next_check(self._roster.awaited()))
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
        for number in self._silence.silent(self._roster.awaited(), now):
            self._suspect(self._roster.silent(number))
        if not (self._succeeded or self._stopping or self._roster.finishing):
            self._fill_slots(now)
        self._consider(now)
        self._end_if_done()

    def _start_when_all_answer(self, now: float) -> None:
        """Nothing: each host's workers start when it answers."""

    def _obey(self, link: HostLink, message: Message) -> None:
        if message.kind is Kind.WORD:
            self._hear(message.rank, json.loads(message.payload))
        elif message.kind is Kind.DYING:
            if (dying := self._roster.dying(message.rank)) is not None:
                self._suspect(dying)
        elif message.kind is Kind.HELLO:
            self._due.pop(f"answer {link.host.name}", None)
        else:
            super()._obey(link, message)

    def _hear(self, number: int, word: dict[str, object]) -> None:
        """A worker has said something; "alive" is no more than that."""
        self._silence.heard(number, time.monotonic())
        kind = word.get("kind")
        if kind == "ready":
            self._roster.ready(number)
        elif kind == "failed":
            lost = word["lost"]
            assert isinstance(lost, list)
            for suspect in self._roster.failed(number, int(str(word["generation"])), lost):
                self._suspect(suspect)
        elif kind == "joined":
            self._joined(number, word)
        elif kind == "done":
            for useless in self._roster.done(number):
                self._kill(useless)
        elif kind == "raised":
            self._roster.raised(number)
        elif kind == "saved":
            self._output.say(f"w{number} has saved {word['path']}")

    def _joined(self, number: int, word: dict[str, object]) -> None:
        generation, seconds = int(str(word["generation"])), word["seconds"]
        self._roster.joined(number, generation, time.monotonic())
        if self._spec.verbose:
            assert isinstance(seconds, dict)
            parts = ", ".join(f"{part} {1000 * s:.1f} ms" for part, s in seconds.items())
            place = f"rank {word['rank']} of generation {generation}"
            self._output.say(f"w{number} is {place} ({parts})")

    def _suspect(self, worker: Worker) -> None:
        """The others can't go on with it; if it is still there it has to go."""
        self._later(
            f"suspect {worker.number}", _SUSPICION_S, lambda: self._kill_number(worker.number)
        )

    def _exited(self, link: HostLink, rank: int, status: int) -> None:
        worker = self._roster.workers.get(rank)
        if worker is None or self._status is not None:
            return
        self._silence.ended(rank)
        how = how_it_ended(status)
        if self._spec.verbose or status != 0:
            self._output.say(f"{worker.id} on {worker.host} {how}")
        if status == 0 and worker.phase is not Phase.LEAVING and not self._stopping:
            self._succeeded = True
            for useless in self._roster.finished(rank):
                self._kill(useless)
            return
        self._roster.ended(rank, how)
        if worker.phase is Phase.LEAVING or self._stopping:
            return
        if worker.joined > 0 and not self._roster.has_state():
            self._say_what_is_left()
        if _is_own_error(status) and not self._elastic.restart_on_error:
            self._failed_rank = rank
            self._end(status, f"{worker.id} has failed; ending the others (--restart-on-error)")
        else:
            now = time.monotonic()
            member_s = 0.0 if worker.member_since is None else now - worker.member_since
            seconds = self._restarts.lost(worker.host, worker.slot, member_s, now)
            if seconds:
                self._output.say(f"{worker.host} gets no workers for {seconds:g} s")

    def _say_what_is_left(self) -> None:
        directory = self._spec.commit_directory
        if directory:
            place = f"the last commit in {directory}"
        else:
            place = "the beginning, unless the script commits it (no --commit-dir)"
        self._output.say(f"no worker is left that has the state; training goes on from {place}")

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
        expected = (Phase.STARTING, Phase.DONE)
        starting = any(w.phase in expected for w in self._roster.workers.values())
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
        self._silence.announced(time.monotonic())
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
