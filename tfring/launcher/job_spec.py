"""What a job is told to run, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tfring.launcher.hosts import Placement
from tfring.launcher.ssh import Ssh


@dataclass(frozen=True)
class JobSpec:
    """What to run.

    Attributes:
        command: The command line of every worker.
        placements: Which rank runs where.
        ssh: How to reach other hosts.
        directory: Working directory of every worker.
        variables: Environment variables of every worker, on top of its host's.
        remote_variables: More of them for workers on other hosts; `variables` win.
        network_interface: Interface of this machine for the store; "" to find it out.
        start_timeout_s: Seconds for all hosts to answer.
        heartbeat_timeout_s: Seconds of silence after which a worker counts as lost; 0: never.
        commit_directory: Where states are committed, unless a script has its own; "": nowhere.
        grace_s: Seconds between SIGTERM and SIGKILL when workers are ended.
        end_with_stdin: End the job when standard input closes.
        verbose: Report each start and end.
        timeline: File for a timeline of all ranks; "" for none.
    """

    command: Sequence[str]
    placements: Sequence[Placement]
    ssh: Ssh
    directory: str
    variables: dict[str, str] = field(default_factory=dict)
    remote_variables: dict[str, str] = field(default_factory=dict)
    network_interface: str = ""
    start_timeout_s: float = 120.0
    heartbeat_timeout_s: float = 10.0
    commit_directory: str = ""
    grace_s: float = 5.0
    end_with_stdin: bool = False
    verbose: bool = False
    timeline: str = ""
