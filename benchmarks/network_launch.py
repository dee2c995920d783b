"""How each engine's processes are started on several hosts of `tests/network/hosts.py`."""

from __future__ import annotations

import itertools
import secrets
import shlex
from collections.abc import Sequence
from pathlib import Path

from benchmarks.launch import Command, Launch, _lacks, mpirun
from tests.network.hosts import Hosts

STORE_PORT = 7900


class Loopback:
    """Stands for `Hosts` where all is done over this machine's loopback device.

    Args:
        count: Number of hosts that there seem to be.
    """

    device = "lo"

    def __init__(self, count: int) -> None:
        self.count = count

    def address(self, host: int) -> str:
        return "127.0.0.1"

    def command(self, host: int, command: Sequence[str]) -> list[str]:
        """What runs `command` on a host."""
        return list(command)

    def __enter__(self) -> Loopback:
        return self

    def __exit__(self, *error: object) -> None:
        pass


class Placement:
    """Ranks on hosts, host by host.

    Args:
        hosts: Where.
        per_host: Ranks of each host.
    """

    def __init__(self, hosts: Hosts | Loopback, per_host: int) -> None:
        self.hosts = hosts
        self.device = hosts.device
        self.per_host = per_host
        self.size = hosts.count * per_host
        self.addresses = [hosts.address(rank // per_host) for rank in range(self.size)]
        self._ports = itertools.count(STORE_PORT + secrets.randbelow(90))

    def launches(self, names: list[str]) -> list[Launch]:
        """The engines of these names; LABEL=FOLDER is tfring with that folder's library."""
        no_mpi = _lacks("mpi4py") or ("" if mpirun() else "mpirun not found")
        # gloo would talk to the address that the host's name has.
        interface = {"GLOO_SOCKET_IFNAME": self.device}
        known = [
            Launch("tfring", "tfring", "tfring_raw:TfringRaw", self._start_tfring),
            Launch("plain_tcp", "plain TCP", "plain_tcp:PlainTcp", self._start_plain),
            Launch(
                *("gloo", "PyTorch gloo", "gloo:Gloo", self._start_gloo, _lacks("torch")),
                variables=interface,
            ),
            Launch("open_mpi", "Open MPI, TCP", "open_mpi:OpenMpi", self._start_mpi, no_mpi),
        ]
        by_name = {launch.name: launch for launch in known}
        return [by_name[name] if name in by_name else self._other(name) for name in names]

    def _other(self, name: str) -> Launch:
        label, _, folder = name.partition("=")
        missing = "" if Path(folder, "libtfring.so").exists() else f"no libtfring.so in {folder!r}"
        variables = {"TFRING_LIBRARY_DIR": folder}
        return Launch(
            *(label, label, "tfring_raw:TfringRaw", self._start_tfring, missing),
            variables=variables,
        )

    def _on_hosts(
        self, launch: Launch, arguments: list[str], own: list[dict[str, str]]
    ) -> list[Command]:
        commands = []
        for rank, variables in enumerate(own):
            place = ["--rank", str(rank), "--size", str(self.size)]
            command = launch.worker([*arguments, *place])
            environment = {**launch.environment(), **variables}
            commands.append((self.hosts.command(rank // self.per_host, command), environment))
        return commands

    def _start_tfring(
        self, launch: Launch, size: int, arguments: list[str], directory: Path
    ) -> list[Command]:
        shared = {
            "TFRING_SIZE": str(size),
            "TFRING_LOCAL_SIZE": str(self.per_host),
            "TFRING_CROSS_SIZE": str(self.hosts.count),
            "TFRING_STORE": f"{self.addresses[0]}:{next(self._ports)}",
            "TFRING_SECRET": secrets.token_hex(16),
        }
        own = [
            {
                **shared,
                "TFRING_RANK": str(rank),
                "TFRING_LOCAL_RANK": str(rank % self.per_host),
                "TFRING_CROSS_RANK": str(rank // self.per_host),
                "TFRING_HOST_ID": f"host{rank // self.per_host}",
                **({"TFRING_STORE_SERVE": "1"} if rank == 0 else {}),
            }
            for rank in range(size)
        ]
        return self._on_hosts(launch, arguments, own)

    def _start_plain(
        self, launch: Launch, size: int, arguments: list[str], directory: Path
    ) -> list[Command]:
        place = ["--meeting-place", ",".join(self.addresses)]
        return self._on_hosts(launch, [*arguments, *place], [{}] * size)

    def _start_gloo(
        self, launch: Launch, size: int, arguments: list[str], directory: Path
    ) -> list[Command]:
        place = ["--meeting-place", str(directory / f"{launch.name}.meeting")]
        return self._on_hosts(launch, [*arguments, *place], [{}] * size)

    def _start_mpi(
        self, launch: Launch, size: int, arguments: list[str], directory: Path
    ) -> list[Command]:
        """mpirun on the first host, which enters the others as it would by ssh."""
        agent = directory / "enter_host"
        # Ends with mpirun, even if that is killed.
        enter = "setpriv --pdeathsig KILL {} unshare --uts --pid --fork --kill-child sh -c"
        cases = "\n".join(
            f"{self.hosts.address(host)}) set -- "
            f'{enter.format(shlex.join(self.hosts.command(host, [])))} "hostname host{host}; $*" ;;'
            for host in range(self.hosts.count)
        )
        agent.write_text(f'#!/bin/sh\nhost=$1\nshift\ncase $host in\n{cases}\nesac\nexec "$@"\n')
        agent.chmod(0o755)
        if isinstance(self.hosts, Loopback):
            slots = f"localhost:{self.size}"
        else:
            slots = ",".join(
                f"{self.hosts.address(h)}:{self.per_host}" for h in range(self.hosts.count)
            )
        mca = {
            "plm_rsh_agent": str(agent),
            "btl": "tcp,self",
            "pml": "ob1",
            "btl_tcp_if_include": self.device,
            "oob_tcp_if_include": self.device,
            "orte_keep_fqdn_hostnames": "1",
        }
        command = [str(mpirun()), "--host", slots, "-np", str(size), "--bind-to", "none"]
        for key, value in mca.items():
            command += ["--mca", key, value]
        for variable in ("PYTHONPATH", "OMP_NUM_THREADS"):
            command += ["-x", variable]
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return [
            (
                self.hosts.command(0, [*command, *launch.worker(arguments)]),
                {**launch.environment(), **root},
            )
        ]
