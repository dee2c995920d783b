"""Elastic jobs on several hosts: localhost and 127.0.0.1, reached by a real ssh, stand for two."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from elastic.elastic_job import STEPS, ElasticJob
from harness.ssh_server import SshServer

pytestmark = pytest.mark.timeout(240)


def agent_on_the_other_host(job: ElasticJob) -> int:
    (line,) = [line for line in job.left() if "tfring.launcher.remote" in line]
    return int(line.split()[0])


def test_workers_on_either_host_are_killed(sshd: SshServer, tmp_path: Path) -> None:
    epochs = 6
    with ElasticJob(
        *(tmp_path, "-H", "localhost:1,127.0.0.1:2", "--min-np", "1", *sshd.options),
        script=("--epochs", str(epochs), *STEPS),
        env=sshd.env,
    ) as job:
        job.wait_step(10)
        for rank in (2, 0):
            job.kill(rank)
            job.wait_change()
        job.finish(epochs)


def test_a_host_is_lost_and_comes_back(sshd: SshServer, tmp_path: Path) -> None:
    epochs = 25
    options = ("-H", "localhost:1,127.0.0.1:1", "--min-np", "1", "--cooldown", "1")
    with ElasticJob(
        *(tmp_path, *options, *sshd.options),
        script=("--epochs", str(epochs), *STEPS),
        env=sshd.env,
    ) as job:
        job.wait_step(10)
        os.kill(agent_on_the_other_host(job), signal.SIGKILL)
        job.wait_size(1)
        job.wait_size(2)
        job.finish(epochs)
        assert "127.0.0.1: lost; it gets no workers for 1 s" in job.errors


def test_hosts_and_slots_come_and_go(sshd: SshServer, tmp_path: Path) -> None:
    """As the discovery script says; nobody is killed for it, and no step is lost."""
    epochs = 40
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost:2\n")
    with ElasticJob(
        *(tmp_path / "events", "--min-np", "1", "--max-np", "3"),
        *("--host-discovery-script", f"cat {hosts}", *sshd.options),
        script=("--epochs", str(epochs), *STEPS),
        env=sshd.env,
    ) as job:
        job.wait_size(2)
        for listed, size in (
            ("localhost:2\n127.0.0.1:1\n", 3),
            ("localhost:1\n127.0.0.1:1\n", 2),
            ("localhost:1\n", 1),
            ("localhost:1\n127.0.0.1:2\n", 3),
        ):
            (tmp_path / "new").write_text(listed)
            (tmp_path / "new").replace(hosts)
            job.wait_size(size)
        job.finish(epochs)
        assert "was ended by signal" not in job.errors
        # Those whose slots had gone have ended well.
        assert job.errors.count("exited with status 0") == 5
