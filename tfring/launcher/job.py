"""A job, from the start of its hosts' agents to the end of its last worker.

The first thing that goes wrong decides how the job ends: a worker that fails, one that
cannot be started, a host that is lost, a signal. Everything else is then ended too, and
what fails meanwhile is a consequence and not reported.
"""

from __future__ import annotations

import os
import secrets
import selectors
import signal
import time
from collections.abc import Sequence

from tfring.launcher.addresses import is_this_machine
from tfring.launcher.agent import STOPPED
from tfring.launcher.environment import placement_variables
from tfring.launcher.host_link import HostLink, LocalLink, SshLink
from tfring.launcher.hosts import Host, Placement
from tfring.launcher.job_spec import JobSpec
from tfring.launcher.messages import Kind, Message, ProtocolError
from tfring.launcher.output import Output, OutputClosed
from tfring.launcher.stop_signals import StopSignals
from tfring.launcher.store_place import StorePlace
from tfring.launcher.timeline_parts import LauncherParts
from tfring.launcher.worker import WorkerSpec, how_it_ended

_CHUNK = 1 << 16
# Beyond the workers' own grace period: for the agents to report, over a slow connection.
_PATIENCE_S = 5.0


class Job:
    """Starts the workers and stays until all have ended.

    Args:
        spec: What to run.
        output: Where workers' output goes.
        signals: Signals received.
    """

    def __init__(self, spec: JobSpec, output: Output, signals: StopSignals) -> None:
        self._spec = spec
        self._output = output
        self._signals = signals
        self._links: list[HostLink] = []
        self._store: StorePlace | None = None
        self._timeline = LauncherParts(spec.timeline)
        self._unfinished = {placement.rank for placement in spec.placements}
        self._selector = selectors.DefaultSelector()
        self._workers_started = False
        self._start_deadline = time.monotonic() + spec.start_timeout_s
        self._status: int | None = None  # set when the job is being ended
        self._failed_rank: int | None = None
        self._give_up = 0.0
        self._hurried = False

    def run(self) -> int:
        """The exit status for `tfringrun`.

        Raises:
            TfringError: The job could not be begun.
        """
        self._selector.register(self._signals.wakeup, selectors.EVENT_READ, self._on_signal)
        if self._spec.end_with_stdin:
            self._selector.register(0, selectors.EVENT_READ, self._on_stdin)
        try:
            self._start_agents()
            while self._links:
                for key, _ in self._selector.select(self._seconds_to_wait()):
                    key.data()
                self._act()
        except OutputClosed:
            return 128 + signal.SIGPIPE
        finally:
            self._close_all(self._links)
            if self._store is not None:
                self._store.stop()
            self._timeline.finish(self._output, self._workers_in_all())
        return self._status or 0

    def _workers_in_all(self) -> int:
        return len(self._spec.placements)

    # ---- Starting ---------------------------------------------------------------------

    def _start_agents(self) -> None:
        hosts: dict[Host, list[Placement]] = {}
        for placement in self._spec.placements:
            hosts.setdefault(placement.host, []).append(placement)
        # One host may be this machine. Another name of it (localhost and 127.0.0.1) is taken
        # for another host, reached like any other.
        local = next((host for host in hosts if is_this_machine(host.name)), None)
        if local is not None:
            # First, while there is one thread and no other pipe to inherit.
            self._add(LocalLink(local, hosts[local]))
        remote = [host for host in hosts if host is not local]
        if remote:
            self._spec.ssh.check()
        self._serve_store([host.name for host in remote])
        for host in remote:
            self._add(SshLink(host, self._spec.ssh, hosts[host]))

    def _serve_store(self, remote: Sequence[str]) -> None:
        """Starts the store, at an address that these hosts reach."""
        self._store = StorePlace.serve(
            [self._spec.ssh.address_of(name) for name in remote],
            interface=self._spec.network_interface,
            secret=secrets.token_hex(32),
        )
        if self._spec.verbose:
            self._output.say(f"the workers meet at {self._store.address}")

    def _add(self, link: HostLink) -> None:
        self._links.append(link)
        self._selector.register(link.report, selectors.EVENT_READ, lambda: self._on_report(link))
        if link.stderr is not None:
            self._selector.register(
                link.stderr, selectors.EVENT_READ, lambda: self._on_stderr(link)
            )

    def _start_workers(self) -> None:
        assert self._store is not None
        self._workers_started = True
        for link in self._links:
            specs = []
            for placement in link.placements:
                local = isinstance(link, LocalLink)
                variables = {
                    **({} if local else self._spec.remote_variables),
                    **self._spec.variables,
                    **placement_variables(placement),
                    **self._store.variables(),
                    **self._timeline.variables(placement.rank, local=local),
                }
                specs.append(
                    WorkerSpec(
                        placement.rank, list(self._spec.command), variables, self._spec.directory
                    )
                )
            link.start(specs)

    # ---- What happens -----------------------------------------------------------------

    def _seconds_to_wait(self) -> float | None:
        if self._status is not None:
            return max(0.0, self._give_up - time.monotonic())
        if not self._workers_started:
            return max(0.0, self._start_deadline - time.monotonic())
        return None

    def _act(self) -> None:
        """Does what is due, whatever woke the launcher."""
        now = time.monotonic()
        if self._signals.number is not None and self._status is None:
            name = signal.Signals(self._signals.number).name
            self._end(128 + self._signals.number, f"received {name}; ending all workers")
        if self._signals.repeated and not self._hurried:
            self._hurried = True
            self._stop_links(0.0)
        if self._status is not None:
            if now >= self._give_up:
                self._close_all(self._links)
        elif not self._workers_started:
            self._start_when_all_answer(now)

    def _start_when_all_answer(self, now: float) -> None:
        silent = [link.host.name for link in self._links if not link.ready]
        if not silent:
            self._start_workers()
        elif now >= self._start_deadline:
            self._end(
                2,
                f"no answer from {', '.join(silent)} within "
                f"{self._spec.start_timeout_s:g} s (--timeout-start)",
            )

    def _on_signal(self) -> None:
        self._signals.clear_wakeup()

    def _on_stdin(self) -> None:
        if not os.read(0, _CHUNK):
            self._selector.unregister(0)
            self._end(1, "standard input has closed; ending all workers")

    def _on_stderr(self, link: HostLink) -> None:
        if link not in self._links or link.stderr is None:
            return  # closed by another event of the same turn
        data = os.read(link.stderr, _CHUNK)
        if not data:
            self._selector.unregister(link.stderr)
            return
        lines = data.decode("utf-8", "replace").splitlines()
        link.last_words.extend(line for line in lines if line.strip())
        # Before, it is banners and the like, or the reason of a failure: see _lost.
        if link.ready or self._spec.verbose:
            for line in lines:
                self._output.say(f"{link.host.name}: {line}")

    def _on_report(self, link: HostLink) -> None:
        if link not in self._links:
            return
        data = os.read(link.report, _CHUNK)
        try:
            messages = link.feed(data)
        except ProtocolError as error:
            self._end(1, f"{link.host.name} answers with something else than an agent: {error}")
            self._close(link)
            return
        for message in messages:
            self._obey(link, message)
        if not data:
            self._lost(link)

    def _obey(self, link: HostLink, message: Message) -> None:
        rank = message.rank
        if message.kind is Kind.STDOUT or message.kind is Kind.STDERR:
            self._output.write(rank, message.payload, is_error=message.kind is Kind.STDERR)
        elif message.kind is Kind.STARTED and self._spec.verbose:
            pid = message.json()["pid"]
            self._output.say(f"{self._called(rank)} runs on {link.host.name} as process {pid}")
        elif message.kind is Kind.FAILED:
            self._unfinished.discard(rank)
            reason = message.json()
            text = f"cannot start {self._called(rank)} on {link.host.name}: {reason['message']}"
            self._not_started(rank, int(reason["status"]), text)
        elif message.kind is Kind.TIMELINE:
            self._timeline.add(rank, message.payload)
        elif message.kind is Kind.EXITED:
            self._exited(link, rank, int(message.json()["status"]))
        elif message.kind is Kind.FINISHED:
            self._unfinished.discard(rank)
            self._output.finish(rank)
            if rank == self._failed_rank:
                self._show_tail(rank)

    def _called(self, rank: int) -> str:
        """What a worker is called in messages."""
        return f"rank {rank}"

    def _not_started(self, rank: int, status: int, text: str) -> None:
        self._end(status, text)

    def _exited(self, link: HostLink, rank: int, status: int) -> None:
        if self._spec.verbose:
            self._output.say(f"{self._called(rank)} on {link.host.name} {how_it_ended(status)}")
        if status == 0 or self._status is not None:
            return
        self._failed_rank = rank
        others = "; ending the others" if len(self._unfinished) > 1 else ""
        self._end(
            status if status > 0 else 128 - status,
            f"{self._called(rank)} on {link.host.name} {how_it_ended(status)}{others}",
        )

    def _show_tail(self, rank: int) -> None:
        lines = self._output.tail(rank)
        if lines:
            shown = "".join(f"\n  {line}" for line in lines)
            self._output.say(f"the last lines of {self._called(rank)}, which failed first:{shown}")

    # ---- Ending -----------------------------------------------------------------------

    def _lost(self, link: HostLink) -> None:
        """The agent has closed its end."""
        missing = sorted(self._unfinished & {placement.rank for placement in link.placements})
        if link.stderr is not None and missing:
            # What ssh has to say about it may still be on its way.
            os.set_blocking(link.stderr, False)
            try:
                self._on_stderr(link)
            except (BlockingIOError, KeyError):
                pass
        status = self._close(link)
        if status == STOPPED:
            # Even if its workers took SIGTERM for a reason to exit with status 0.
            self._end(1, f"a signal ended the workers on {link.host.name}")
        if not missing or self._status is not None:
            return
        if link.ready:
            ranks = ", ".join(map(str, missing))
            text = f"lost {link.host.name}, where these ranks ran: {ranks}"
        else:
            text = f"cannot start on {link.host.name}; ssh ended with status {status}"
        said = list(link.last_words)
        if any("No module named" in line for line in said):
            said.append("(install tfring there, or name its Python with --remote-python)")
        self._end(1 if link.ready else 2, "\n  ".join([text, *said]))

    def _end(self, status: int, text: str) -> None:
        """Ends the job; only the first call has an effect."""
        if self._status is not None:
            return
        self._output.say(text)
        self._finish(status)

    def _finish(self, status: int) -> None:
        self._status = status
        self._stop_links(self._spec.grace_s)

    def _stop_links(self, grace_s: float) -> None:
        self._give_up = time.monotonic() + grace_s + _PATIENCE_S
        for link in self._links:
            if link.ready:
                link.stop(grace_s)
        self._close_all([link for link in self._links if not link.ready])

    def _close_all(self, links: Sequence[HostLink]) -> None:
        for link in links:
            link.hang_up()
        for link in list(links):
            self._close(link)

    def _close(self, link: HostLink) -> int:
        if link not in self._links:
            return 0
        self._links.remove(link)
        for descriptor in (link.report, link.stderr):
            if descriptor is not None:
                try:
                    self._selector.unregister(descriptor)
                except KeyError:
                    pass
        return link.close()
