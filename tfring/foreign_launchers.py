"""Ranks that another launcher has started: mpirun, srun, torchrun or horovodrun.

Each function turns that launcher's environment variables into tfring's own. These jobs have
no store and no secret of tfring's: rank 0 serves the store, at a port and with a secret that
every rank derives from the job's id. Whoever can guess the id can guess the secret, so on a
network that others use, set TFRING_SECRET (and TFRING_STORE, if the derived address is wrong).
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
from collections.abc import Callable, Mapping

from tfring.errors import InvalidArgumentError

Variables = Mapping[str, str]

# Below the range from which systems give out ports by themselves.
_FIRST_PORT, _LAST_PORT = 20000, 31999


def variables_of(environ: Variables) -> dict[str, str]:
    """TFRING_* variables for this process, from those of the launcher that started it.

    Returns:
        An empty dictionary when no known launcher has.
    """
    for found, translate in _LAUNCHERS:
        if all(name in environ for name in found):
            return translate(environ)
    return {}


def _whole(environ: Variables, name: str, default: int | None = None) -> int:
    """A variable's whole number; `default` when the launcher has not set it."""
    text = environ.get(name, "" if default is None else str(default))
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise InvalidArgumentError(f"{name}: expected a whole number, 0 or more, received {text!r}")
    return int(text)


def _count(environ: Variables, name: str, default: int | None = None) -> int:
    """The same for a number of something, of which there is at least one."""
    value = _whole(environ, name, default)
    if value == 0:
        raise InvalidArgumentError(f"{name}: expected a whole number, 1 or more, received 0")
    return value


def _meeting(job: str, address: str, rank: int) -> dict[str, str]:
    digest = hashlib.sha256(f"tfring {job} of user {os.getuid()}".encode()).hexdigest()
    port = _FIRST_PORT + int(digest[:8], 16) % (_LAST_PORT - _FIRST_PORT + 1)
    host = f"[{address}]" if ":" in address else address
    return {
        "TFRING_STORE": f"{host}:{port}",
        "TFRING_SECRET": digest,
        "TFRING_STORE_SERVE": "1" if rank == 0 else "0",
    }


def _place(
    rank: int, size: int, local_rank: int, local_size: int, cross_rank: int, cross_size: int
) -> dict[str, str]:
    return {
        "TFRING_RANK": str(rank),
        "TFRING_SIZE": str(size),
        "TFRING_LOCAL_RANK": str(local_rank),
        "TFRING_LOCAL_SIZE": str(local_size),
        "TFRING_CROSS_RANK": str(cross_rank),
        "TFRING_CROSS_SIZE": str(cross_size),
    }


def _place_by_blocks(rank: int, size: int, local_rank: int, local_size: int) -> dict[str, str]:
    """For launchers that don't number hosts: as many ranks on each, one block after another."""
    hosts = -(-size // local_size)
    place = _place(rank, size, local_rank, local_size, min(rank // local_size, hosts - 1), hosts)
    return {**place, "TFRING_HOST_ID": socket.gethostname()}


def _address_on_one_host(rank_count: int, local_size: int, launcher: str) -> str:
    if rank_count == local_size:
        return "127.0.0.1"
    raise InvalidArgumentError(
        f"{launcher} does not say on which host rank 0 runs: set TFRING_STORE=HOST:PORT, "
        "an address of rank 0's host and a free port, on all ranks"
    )


def _open_mpi(environ: Variables) -> dict[str, str]:
    rank, size = _whole(environ, "OMPI_COMM_WORLD_RANK"), _count(environ, "OMPI_COMM_WORLD_SIZE")
    local_size = _count(environ, "OMPI_COMM_WORLD_LOCAL_SIZE", size)
    local_rank = _whole(environ, "OMPI_COMM_WORLD_LOCAL_RANK", rank)
    job = environ.get("PMIX_NAMESPACE") or environ.get("OMPI_MCA_ess_base_jobid", "")
    # "JOB;tcp://10.0.0.5,192.168.0.5:41455": where mpirun runs, which is rank 0's host too
    # unless a host file says otherwise.
    server = re.search(r"tcp://([^,:;]+)", environ.get("OMPI_MCA_orte_hnp_uri", ""))
    if server is not None and local_size != size:
        address = server.group(1)
    else:
        address = _address_on_one_host(size, local_size, "mpirun")
    place = _place_by_blocks(rank, size, local_rank, local_size)
    return {**place, **_meeting(f"mpi {job}", address, rank)}


def _pmi(environ: Variables) -> dict[str, str]:
    rank, size = _whole(environ, "PMI_RANK"), _count(environ, "PMI_SIZE")
    local_size = _count(environ, "MPI_LOCALNRANKS", size)
    local_rank = _whole(environ, "MPI_LOCALRANKID", rank)
    job = environ.get("PMI_JOBID") or environ.get("PMI_PORT", "")
    address = _address_on_one_host(size, local_size, "mpiexec")
    place = _place_by_blocks(rank, size, local_rank, local_size)
    return {**place, **_meeting(f"pmi {job}", address, rank)}


def _slurm(environ: Variables) -> dict[str, str]:
    rank, size = _whole(environ, "SLURM_PROCID"), _count(environ, "SLURM_STEP_NUM_TASKS")
    node = _whole(environ, "SLURM_NODEID", 0)
    tasks = tasks_per_node(environ.get("SLURM_STEP_TASKS_PER_NODE", str(size)))
    if node >= len(tasks):
        raise InvalidArgumentError(
            f"SLURM_NODEID: expected less than {len(tasks)}, the hosts that "
            f"SLURM_STEP_TASKS_PER_NODE has, received {node}"
        )
    local_rank = _whole(environ, "SLURM_LOCALID", rank)
    hosts = node_names(environ.get("SLURM_STEP_NODELIST", "localhost"))
    address = "127.0.0.1" if len(tasks) == 1 else hosts[0]
    job = f"{environ.get('SLURM_JOB_ID', '')}.{environ.get('SLURM_STEP_ID', '')}"
    return {
        **_place(rank, size, local_rank, tasks[node], node, len(tasks)),
        "TFRING_HOST_ID": str(node),
        **_meeting(f"slurm {job}", address, rank),
    }


def _torchrun(environ: Variables) -> dict[str, str]:
    rank, size = _whole(environ, "RANK"), _count(environ, "WORLD_SIZE")
    local_size = _count(environ, "LOCAL_WORLD_SIZE", size)
    group = _whole(environ, "GROUP_RANK", rank // local_size)
    groups = _count(environ, "GROUP_WORLD_SIZE", -(-size // local_size))
    # The port itself is taken by torchrun's own store.
    job = f"{environ.get('TORCHELASTIC_RUN_ID', '')} {environ.get('MASTER_PORT', '')}"
    address = environ.get("MASTER_ADDR", "127.0.0.1")
    return {
        **_place(rank, size, _whole(environ, "LOCAL_RANK", rank), local_size, group, groups),
        "TFRING_HOST_ID": str(group),
        "TFRING_GENERATION": environ.get("TORCHELASTIC_RESTART_COUNT", "0"),
        **_meeting(f"torchrun {job}", address, rank),
    }


def _horovodrun(environ: Variables) -> dict[str, str]:
    rank, size = _whole(environ, "HOROVOD_RANK"), _count(environ, "HOROVOD_SIZE")
    local_size = _count(environ, "HOROVOD_LOCAL_SIZE", size)
    cross_rank = _whole(environ, "HOROVOD_CROSS_RANK", rank // local_size)
    cross_size = _count(environ, "HOROVOD_CROSS_SIZE", -(-size // local_size))
    # horovodrun's host; rank 0's too unless the first host of -H is another.
    address = "127.0.0.1"
    if local_size != size:
        address = environ.get("HOROVOD_GLOO_RENDEZVOUS_ADDR", "") or _address_on_one_host(
            size, local_size, "horovodrun"
        )
    job = environ.get("HOROVOD_GLOO_RENDEZVOUS_PORT", "")
    local_rank = _whole(environ, "HOROVOD_LOCAL_RANK", rank)
    return {
        **_place(rank, size, local_rank, local_size, cross_rank, cross_size),
        "TFRING_HOST_ID": environ.get("HOROVOD_HOSTNAME", str(cross_rank)),
        **_meeting(f"horovodrun {job}", address, rank),
    }


def tasks_per_node(text: str) -> list[int]:
    """Slurm's SLURM_STEP_TASKS_PER_NODE, written out.

    >>> tasks_per_node("2(x3),1")
    [2, 2, 2, 1]
    """
    counts: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        if match is None:
            raise InvalidArgumentError(
                f"SLURM_STEP_TASKS_PER_NODE: expected e.g. 2(x3),1, received {text!r}"
            )
        counts += [int(match.group(1))] * int(match.group(2) or 1)
    return counts


def node_names(text: str) -> list[str]:
    """Slurm's node lists, written out.

    >>> node_names("gpu[1-2,07],login")
    ['gpu1', 'gpu2', 'gpu07', 'login']
    """
    entry = r"(?:[^,\[\]]|\[[0-9,-]+\])+"
    if not re.fullmatch(f"{entry}(?:,{entry})*", text):
        raise _no_node_list(text)
    try:
        return [name for part in re.findall(entry, text) for name in _expanded(part)]
    except ValueError:
        raise _no_node_list(text) from None


def _expanded(entry: str) -> list[str]:
    prefix, bracket, rest = entry.partition("[")
    if not bracket:
        return [entry]
    ranges, _, suffix = rest.partition("]")
    numbers = []
    for item in ranges.split(","):
        first, _, last = item.partition("-")
        numbers += [
            f"{number:0{len(first)}d}" for number in range(int(first), int(last or first) + 1)
        ]
    return [prefix + number + tail for number in numbers for tail in _expanded(suffix)]


def _no_node_list(text: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"SLURM_STEP_NODELIST: expected e.g. gpu[1-2,07],login, received {text!r}"
    )


_LAUNCHERS: list[tuple[tuple[str, ...], Callable[[Variables], dict[str, str]]]] = [
    (("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"), _torchrun),
    (("HOROVOD_RANK", "HOROVOD_SIZE"), _horovodrun),
    (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), _open_mpi),
    (("PMI_RANK", "PMI_SIZE"), _pmi),
    # Only srun's steps have the second one; a batch script outside a step is one process.
    (("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"), _slurm),
]
