"""How each engine's processes are started on several hosts of `tests/network/hosts.py`."""

from __future__ import annotations

import secrets
import shlex
from pathlib import Path

from benchmarks.launch import Command, Launch, _environment, _lacks, _worker, mpirun
from tests.network.hosts import Hosts

STORE_PORT = 7900
GLOO_PORT = 7800


class Placement:
    """Ranks on hosts, host by host.

    Args:
        hosts: Where.
        per_host: Ranks of each host.
    """

    def __init__(self, hosts: Hosts, per_host: int) -> None:
        self.hosts = hosts
        self.per_host = per_host
        self.size = hosts.count * per_host
        self.addresses = [hosts.address(rank // per_host) for rank in range(self.size)]

    def launches(self, names: list[str]) -> list[Launch]:
        """The engines of these names; one may come as tfring=FOLDER, with its library."""
        no_mpi = _lacks("mpi4py") or ("" if mpirun() else "mpirun not found")
        known = {
            "tfring": Launch("tfring", "tfring", "", self._start_tfring),
            "plain_tcp": Launch("plain_tcp", "plain TCP", "", self._start_plain),
            "gloo": Launch("gloo", "PyTorch gloo", _lacks("torch"), self._start_gloo),
            "open_mpi": Launch("open_mpi", "Open MPI over TCP", no_mpi, self._start_mpi),
        }
        return [known[name] if name in known else self._other_tfring(name) for name in names]

    def _other_tfring(self, name: str) -> Launch:
        label, _, folder = name.partition("=")
        return Launch(
            label,
            label,
            "" if Path(folder, "libtfring.so").exists() else f"no libtfring.so in {folder!r}",
            lambda _, size, arguments, directory: self._start_tfring(
                "tfring", size, arguments, directory, folder
            ),
        )

    def _on_hosts(self, engine: str, arguments: list[str], own: list[dict[str, str]]) -> list[Command]:
        return [
            (
                self.hosts.command(
                    rank // self.per_host,
                    _worker(
                        engine, [*arguments, "--rank", str(rank), "--size", str(self.size)]
                    ),
                ),
                {**_environment(), **variables},
            )
            for rank, variables in enumerate(own)
        ]

    def _start_tfring(
        self, name: str, size: int, arguments: list[str], directory: Path, folder: str = ""
    ) -> list[Command]:
        shared = {
            "TFRING_SIZE": str(size),
            "TFRING_LOCAL_SIZE": str(self.per_host),
            "TFRING_CROSS_SIZE": str(self.hosts.count),
            "TFRING_STORE": f"{self.addresses[0]}:{STORE_PORT + secrets.randbelow(90)}",
            "TFRING_SECRET": secrets.token_hex(16),
            "TFRING_LIBRARY_DIR": folder,
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
        return self._on_hosts(name, arguments, own)

    def _start_plain(
        self, name: str, size: int, arguments: list[str], directory: Path
    ) -> list[Command]:
        addresses = ["--addresses", ",".join(self.addresses)]
        return self._on_hosts(name, [*arguments, *addresses], [{}] * size)

    def _start_gloo(
        self, name: str, size: int, arguments: list[str], directory: Path
    ) -> list[Command]:
        place = ["--meeting-place", str(directory / f"{name}.meeting")]
        # Without it, it would talk to the address that the host's name has.
        return self._on_hosts(name, [*arguments, *place], [{"GLOO_SOCKET_IFNAME": "eth0"}] * size)

    def _start_mpi(
        self, name: str, size: int, arguments: list[str], directory: Path
    ) -> list[Command]:
        """mpirun on the first host, which enters the others as it would by ssh."""
        agent = directory / "enter_host"
        cases = "\n".join(
            f"{self.hosts.address(host)}) set -- {shlex.join(self.hosts.command(host, []))} "
            f"unshare --uts sh -c \"hostname host{host}; $*\" ;;"
            for host in range(self.hosts.count)
        )
        agent.write_text(f'#!/bin/sh\nhost=$1\nshift\ncase $host in\n{cases}\nesac\nexec "$@"\n')
        agent.chmod(0o755)
        slots = ",".join(f"{self.hosts.address(h)}:{self.per_host}" for h in range(self.hosts.count))
        mca = {
            "plm_rsh_agent": str(agent),
            "btl": "tcp,self",
            "pml": "ob1",
            "btl_tcp_if_include": "eth0",
            "oob_tcp_if_include": "eth0",
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
                self.hosts.command(0, [*command, *_worker(name, arguments)]),
                {**_environment(), **root},
            )
        ]
