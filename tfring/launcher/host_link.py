"""The launcher's end of the connection to a host's agent."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import traceback
from collections import deque
from collections.abc import Sequence

from tfring import config
from tfring.launcher.agent import STOPPED, Agent
from tfring.launcher.hosts import Host, Placement
from tfring.launcher.messages import MAGIC, Decoder, Kind, Message, ProtocolError, encode
from tfring.launcher.ssh import Ssh
from tfring.launcher.worker import WorkerSpec, signal_group

_MOST_NOISE = 1 << 20
_STDERR_LINES = 10
_WAIT_S = 5.0


class HostLink:
    """A host, its agent and the ranks there.

    Args:
        host: The host.
        placements: Its ranks, where they stay the same.

    Attributes:
        host, placements: As given.
        report: Descriptor to read the agent's messages from.
        stderr: Descriptor of ssh's standard error; None for this machine.
        ready: Whether the agent has said HELLO.
        last_words: Last lines of ssh's standard error.
    """

    def __init__(
        self, host: Host, placements: Sequence[Placement], report: int, stderr: int | None
    ) -> None:
        self.host = host
        self.placements = tuple(placements)
        self.report = report
        self.stderr = stderr
        self.ready = False
        self.last_words: deque[str] = deque(maxlen=_STDERR_LINES)
        self._decoder = Decoder()
        self._noise: bytearray | None = bytearray()
        self._worker_pids: dict[int, int] = {}  # by rank

    def feed(self, data: bytes) -> list[Message]:
        """The messages that `data` completes.

        Raises:
            ProtocolError: The other side is no agent of ours.
        """
        if self._noise is not None:
            self._noise += data
            noise, found, data = bytes(self._noise).partition(MAGIC)
            if not found:
                if len(noise) > _MOST_NOISE:
                    raise ProtocolError("its shell prints without end")
                return []
            self._noise = None
        messages = self._decoder.feed(data)
        for message in messages:
            if message.kind is Kind.HELLO:
                self.ready = True
            elif message.kind is Kind.STARTED:
                self._worker_pids[message.rank] = int(message.json()["pid"])
            elif message.kind is Kind.FINISHED:
                # The number may pass to another process.
                self._worker_pids.pop(message.rank, None)
        return messages

    def start(
        self, specs: Sequence[WorkerSpec], *, slots: int | None = None, stay: bool = False
    ) -> None:
        """Has the agent start workers.

        Args:
            specs: Which.
            slots: How many share the host's cores; default: these.
            stay: The agent stays when none is left, for more to come.
        """
        request = {
            "workers": [spec.to_json() for spec in specs],
            "slots": slots or max(1, len(specs)),
            "stay": stay,
        }
        self._send(encode(Kind.START, payload=request))

    def kill(self, rank: int) -> None:
        """Has the agent end one worker, at once."""
        self._send(encode(Kind.KILL, rank))

    def stop(self, grace_s: float) -> None:
        """Has the agent end all workers: SIGTERM, and SIGKILL `grace_s` seconds later."""
        self._send(encode(Kind.STOP, payload={"grace_s": grace_s}))

    def give_up(self) -> None:
        """Expects nothing more of the host, not even an end; `close` must follow."""

    def hang_up(self) -> None:
        """Closes the launcher's end, on which the agent ends whatever still runs.

        Waits for nothing, so that many can end at the same time; `close` must follow.
        """
        raise NotImplementedError

    def close(self) -> int:
        """Hangs up and waits for the agent's end; its exit status."""
        raise NotImplementedError

    def _send(self, data: bytes) -> None:
        raise NotImplementedError


class LocalLink(HostLink):
    """The agent of this machine: a fork of the launcher, which must have one thread."""

    def __init__(self, host: Host, placements: Sequence[Placement] = ()) -> None:
        control_read, control = os.pipe()
        report, report_write = os.pipe()
        self._control: int | None = control
        self._pid = os.fork()
        if self._pid == 0:
            os.close(control)
            os.close(report)
            _run_agent(control_read, report_write)
        os.close(control_read)
        os.close(report_write)
        super().__init__(host, placements, report, None)

    def _send(self, data: bytes) -> None:
        assert self._control is not None
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._control, view) :]
        except BrokenPipeError:
            pass  # its end shows at `report`

    def hang_up(self) -> None:
        if self._control is not None:
            os.close(self._control)
            self._control = None

    def close(self) -> int:
        self.hang_up()
        os.close(self.report)
        deadline = time.monotonic() + _WAIT_S
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        while pid == 0 and time.monotonic() < deadline:
            time.sleep(0.005)
            pid, status = os.waitpid(self._pid, os.WNOHANG)
        if pid == 0:
            os.kill(self._pid, signal.SIGKILL)
            _, status = os.waitpid(self._pid, 0)
        exit_status = os.waitstatus_to_exitcode(status)
        if exit_status not in (0, STOPPED):
            # The agent was killed. Its workers' own death is arranged (see Worker), that of
            # their children is not.
            for worker in self._worker_pids.values():
                signal_group(worker, signal.SIGKILL)
        return exit_status


class SshLink(HostLink):
    """The agent of another machine."""

    def __init__(self, host: Host, ssh: Ssh, placements: Sequence[Placement] = ()) -> None:
        self._process = subprocess.Popen(
            ssh.command(host.name),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            # Out of reach of the terminal's Ctrl-C: the agent is asked to stop first.
            start_new_session=True,
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        stdout, stderr = self._process.stdout.fileno(), self._process.stderr.fileno()
        super().__init__(host, placements, stdout, stderr)

    def _send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        view = memoryview(data)
        try:
            while view:
                view = view[self._process.stdin.write(view) or 0 :]
        except BrokenPipeError:
            pass

    def give_up(self) -> None:
        self._process.kill()

    def hang_up(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        if not self.ready:
            # It may be waiting for a host that does not answer, and look at nothing else.
            self._process.terminate()

    def close(self) -> int:
        self.hang_up()
        process = self._process
        assert process.stdout is not None and process.stderr is not None
        try:
            process.wait(_WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_WAIT_S)
        process.stdout.close()
        process.stderr.close()
        return process.returncode


def _run_agent(control: int, report: int) -> None:
    """The life of the forked process."""
    status = 1
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        status = Agent(control, report, config.environment()).run()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)
