"""Kills and adds workers at random for minutes, then checks everything that is promised.

    make soak                        # ten minutes
    make soak SOAK_MINUTES=2

It ends with how much the launcher and the longest-lived worker have grown: descriptors, threads,
memory.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from elastic.elastic_job import DIGITS, ElasticJob  # noqa: E402
from elastic.ledger import check_each_sample_once, of_kind  # noqa: E402

# About half of what an undisturbed job would train: most of it is under attack.
EPOCHS_PER_MINUTE = 30
SLOTS = 3
# To end in, when nothing happens any more.
REST_S = 300.0


def resources(pid: int) -> dict[str, int]:
    """What a process holds."""
    status = Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return {
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "threads": int(fields["Threads"]),
        "memory, MiB": int(fields["VmRSS"].split()[0]) // 1024,
    }


class Growth:
    """What each worker held when it was first seen, and when last."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[float, dict[str, int]]] = {}
        self._latest: dict[int, tuple[float, dict[str, int]]] = {}

    def look(self, pids: Collection[int]) -> None:
        """Looks at the workers of now."""
        for pid in pids:
            try:
                now = (time.monotonic(), resources(pid))
            except OSError:
                continue  # it has just ended
            self._seen.setdefault(pid, now)
            self._latest[pid] = now

    def text(self, pid: int) -> str:
        """Of one process."""
        (began, before), (ended, after) = self._seen[pid], self._latest[pid]
        return f"in {ended - began:.0f} s {before} has become {after}"

    def oldest(self, but: int) -> int:
        """The process that lived longest, but for one."""
        others = self._seen.keys() - {but}
        return max(others, key=lambda pid: self._latest[pid][0] - self._seen[pid][0])


def attack(
    job: ElasticJob, hosts: Path, until: float, chance: random.Random, growth: Growth
) -> int:
    """Kills, stops and adds workers; how often it has done something."""
    done = 0
    while time.monotonic() < until and job.process.poll() is None:
        time.sleep(chance.uniform(1.0, 6.0))
        members = sorted(job.members().values())
        growth.look([job.process.pid, *members])
        what = chance.choice(["kill", "kill", "kill", "two", "stop", "slots"])
        try:
            if what == "slots":
                hosts.write_text(f"localhost:{chance.randint(1, SLOTS)}\n")
            else:
                count = min(len(members), 2 if what == "two" else 1)
                for pid in chance.sample(members, count):
                    os.kill(pid, signal.SIGSTOP if what == "stop" else signal.SIGKILL)
        except ProcessLookupError:
            continue
        done += 1
    return done


def undisturbed_accuracy(directory: Path, epochs: int) -> float:
    """What one worker reaches whom nobody disturbs."""
    launcher = ("-np", "1", "--min-np", "1")
    with ElasticJob(directory, *launcher, script=("--epochs", str(epochs))) as job:
        status = job.wait(60 * epochs)
        assert status == 0, job.errors[-5000:]
        (done,) = of_kind(job.events(), "done")
        return float(done["accuracy"])


def main() -> int:
    minutes, seed = float(sys.argv[1]), random.randrange(10**6)
    epochs = max(2, round(minutes * EPOCHS_PER_MINUTE))
    print(f"{minutes:g} minutes, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="soak-") as scratch:
        hosts = Path(scratch, "hosts")
        hosts.write_text(f"localhost:{SLOTS}\n")
        launcher = ("--min-np", "1", "--max-np", str(SLOTS), "--cooldown", "0.5")
        discovery = ("--host-discovery-script", f"cat {hosts}")
        commits = ("--commit-dir", str(Path(scratch, "commits")))
        script = ("--epochs", str(epochs), "--step-s", "0.03")
        env = {"TFRING_HEARTBEAT_TIMEOUT_S": "3"}
        with ElasticJob(
            Path(scratch, "events"), *launcher, *discovery, *commits, script=script, env=env
        ) as job:
            job.wait_step(5)
            growth = Growth()
            until = time.monotonic() + 60 * minutes
            attacks = attack(job, hosts, until, random.Random(seed), growth)
            hosts.write_text(f"localhost:{SLOTS}\n")
            print("launcher:", growth.text(job.process.pid))
            print("a worker:", growth.text(growth.oldest(job.process.pid)), flush=True)
            status = job.wait(60 * minutes + REST_S)
            events = job.events()
            changes = max(event["generation"] for event in of_kind(events, "step"))
            print(f"{attacks} attacks, {changes} generations, status {status}")
            assert status == 0, job.errors[-5000:]
            check_each_sample_once(events, DIGITS, epochs)
            done = of_kind(events, "done")
            assert len({event["digest"] for event in done}) == 1
            job.check_nothing_left()
        reached = min(event["accuracy"] for event in done)
        expected = undisturbed_accuracy(Path(scratch, "undisturbed"), epochs)
        print(f"accuracy {reached:.4f}, undisturbed {expected:.4f}")
        assert reached > expected - 0.01
    print("every sample once, equal weights, accuracy as ever, nothing left behind")
    return 0


if __name__ == "__main__":
    sys.exit(main())
