"""An elastic job that a test watches and attacks: tfringrun with train_digits.py, or another."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from elastic.ledger import Event, check_each_sample_once, of_kind, read_events
from harness.launched import PYTHON, Launched

SCRIPT = Path(__file__).with_name("train_digits.py")
LIMIT_S = 120.0
DIGITS = 1437  # images to train on
EPOCHS = 4
STEPS = ("--step-s", "0.03")


class ElasticJob(Launched):
    """Starts on entering; its workers' events are in a directory.

    Args:
        directory: For events; made if need be.
        *launcher: Arguments of tfringrun.
        program: What the workers run.
        script: Its arguments.
        env: Variables for all.
        inside: What runs a command on another host: a network namespace.
    """

    def __init__(
        self,
        directory: Path,
        *launcher: str,
        program: Path = SCRIPT,
        script: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        inside: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        super().__init__(
            *("-x", "EVENTS", "--verbose", *launcher),
            *(PYTHON, str(program), *script),
            env={"EVENTS": str(directory), **(env or {})},
            inside=inside,
        )
        # A pipe that nobody reads fills up, and then the launcher waits.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        self.output, self.errors = self.process.communicate()

    def events(self) -> list[Event]:
        return read_events(self.directory)

    def wait_for(
        self, condition: Callable[[list[Event]], bool], what: str, limit_s: float = LIMIT_S
    ) -> list[Event]:
        """Waits until what the workers have written fulfils a condition."""
        deadline = time.monotonic() + limit_s
        while not condition(events := self.events()):
            ended = self.process.poll()
            if ended is not None:
                self.wait()
                raise AssertionError(
                    f"ended with {ended} before {what}:\n{self.output}\n{self.errors}"
                )
            assert time.monotonic() < deadline, f"not within {limit_s:g} s: {what}"
            time.sleep(0.02)
        return events

    def wait_step(self, step: int) -> list[Event]:
        return self.wait_for(
            lambda events: any(e["step"] >= step for e in of_kind(events, "step")), f"step {step}"
        )

    def wait_size(self, size: int) -> list[Event]:
        """Until a step has been completed by that many workers."""
        return self.wait_for(
            lambda events: (
                bool(of_kind(events, "step")) and of_kind(events, "step")[-1]["size"] == size
            ),
            f"a step with {size} workers",
        )

    def members(self) -> dict[int, int]:
        """Processes by rank, of the latest generation that has completed a step."""
        steps = of_kind(self.events(), "step")
        latest = max(event["generation"] for event in steps)
        return {e["rank"]: e["pid"] for e in steps if e["generation"] == latest}

    def newest(self) -> int:
        """Number of the newest generation that a step has been completed in."""
        return max((event["generation"] for event in of_kind(self.events(), "step")), default=0)

    def wait_change(self) -> None:
        """Until a step has been completed in another generation than now."""
        before = self.newest()
        self.wait_for(lambda _: self.newest() > before, "a step of another generation")

    def kill_all(self, ranks: Sequence[int]) -> None:
        """Kills several at once."""
        members = self.members()
        for rank in ranks:
            os.kill(members[rank], signal.SIGKILL)

    def wait(self, limit_s: float = LIMIT_S) -> int:
        """The exit status; `output` and `errors` have the rest."""
        self._reader.join(limit_s)
        assert not self._reader.is_alive(), f"still running after {limit_s:g} s"
        return self.process.returncode

    def finish(
        self, epochs: int, *, samples: int = DIGITS, accuracy: float = 0.9, undone: bool = False
    ) -> list[Event]:
        """Waits for the end of the job, and checks all that must be true of any.

        Args:
            epochs: How many it trains.
            samples: Of an epoch.
            accuracy: What every worker has reached at least.
            undone: Completed steps may be undone by a change of membership.

        Returns:
            The events.
        """
        assert self.wait() == 0, self.output + self.errors
        events = self.events()
        check_each_sample_once(events, samples, epochs, undone=undone)
        done = of_kind(events, "done")
        assert len({event["digest"] for event in done}) == 1
        assert all(event["accuracy"] > accuracy for event in done), done
        self.check_nothing_left()
        return events

    def __exit__(self, *error: Any) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self._reader.join(LIMIT_S)
        super().__exit__(*error)

    def finish_early(self, why: str, commits: Path) -> None:
        """Waits for a job that stops, says why, and has saved the state."""
        assert self.wait() == 1
        assert why in self.errors
        assert "has saved" in self.errors
        assert list(commits.glob("*.tfring"))
        self.check_nothing_left()

    def kill(self, rank: int, number: int = signal.SIGKILL) -> float:
        """Sends a signal to the process of that rank; when, on the clock of events."""
        pid = self.members()[rank]
        now = time.monotonic()
        os.kill(pid, number)
        return now


def digits_job(
    directory: Path,
    *launcher: str,
    np: int = 3,
    epochs: int = EPOCHS,
    script: tuple[str, ...] = (),
    **env: str,
) -> ElasticJob:
    """Trains the digits on this machine, with steps long enough to be attacked in.

    Args:
        directory: For events.
        *launcher: Arguments of tfringrun besides the number of workers.
        np: That number, at first and at most.
        epochs: How many.
        script: Further arguments of train_digits.py.
        **env: Variables for all.
    """
    return ElasticJob(
        *(directory, "-np", str(np), "--min-np", "1", *launcher),
        script=("--epochs", str(epochs), *STEPS, *script),
        env=env,
    )
