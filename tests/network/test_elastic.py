"""Elastic jobs on hosts of their own, one of which can't be reached any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastic.elastic_job import ElasticJob
from harness.ssh_server import SshServer
from network.hosts import Hosts, why_not

pytestmark = pytest.mark.timeout(150)

EPOCHS = 5


def test_a_link_goes_down(tmp_path: Path) -> None:
    """No connection is closed, no process ends: there is silence, and the others go on."""
    if reason := why_not():
        pytest.skip(reason)
    (tmp_path / "ssh").mkdir()
    with Hosts(2) as hosts:
        server = SshServer(tmp_path / "ssh", [hosts.address(1)], hosts.command(1, []))
        try:
            listed = f"{hosts.address(0)}:1,{hosts.address(1)}:2"
            with ElasticJob(
                *(tmp_path / "events", "-H", listed, "--min-np", "1", *server.options),
                script=("--epochs", str(EPOCHS), "--step-s", "0.03"),
                env={**server.env, "TFRING_HEARTBEAT_TIMEOUT_S": "2"},
                inside=hosts.command(0, []),
            ) as job:
                job.wait_step(10)
                hosts.cut(1)
                job.wait_size(1)
                job.finish(EPOCHS)
        finally:
            server.close()
