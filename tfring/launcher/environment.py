"""The environment variables that a worker gets: pure functions of what is known.

TFRING_* variables are read back by `tfring.config`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tfring.errors import LaunchError
from tfring.launcher.hosts import Placement

# Sent to remote hosts besides what -x names. The hosts are taken to be alike: same
# paths, same installation.
_FORWARDED_NAMES = {"LD_LIBRARY_PATH", "PATH", "PYTHONPATH"}
_FORWARDED_PREFIXES = ("KERAS_", "MKL_", "OMP_", "TFRING_", "TF_", "XLA_")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")


def placement_variables(placement: Placement) -> dict[str, str]:
    """Who a worker is."""
    return {
        "TFRING_RANK": str(placement.rank),
        "TFRING_SIZE": str(placement.size),
        "TFRING_LOCAL_RANK": str(placement.local_rank),
        "TFRING_LOCAL_SIZE": str(placement.local_size),
        "TFRING_CROSS_RANK": str(placement.cross_rank),
        "TFRING_CROSS_SIZE": str(placement.cross_size),
        # Ranks share memory when the list of hosts has them on one host.
        "TFRING_HOST_ID": str(placement.cross_rank),
    }


def thread_variables(cores: int, local_size: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Each worker's share of the cores, unless the user has set any of these variables.

    Without it every worker would start as many threads as the host has cores.

    Args:
        cores: Cores of the host that the workers may use.
        local_size: Workers on the host.
        environment: What is set already.
    """
    if any(environment.get(name) for name in _THREAD_VARIABLES):
        return {}
    share = max(1, cores // local_size)
    return {
        "OMP_NUM_THREADS": str(share),
        "TF_NUM_INTRAOP_THREADS": str(share),
        # Collectives hold no thread while they run, but another operation that blocks (a
        # py_function) would keep the only thread from starting them.
        "TF_NUM_INTEROP_THREADS": str(max(2, share)),
    }


def requested_variables(requests: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Variables of `-x NAME` and `-x NAME=VALUE`.

    Raises:
        LaunchError: A name is malformed, or has no value here.
    """
    variables = {}
    for request in requests:
        name, given, value = request.partition("=")
        if not name or not name.replace("_", "a").isalnum() or name[0].isdigit():
            raise LaunchError(f"-x {request!r}: expected NAME or NAME=VALUE")
        if not given and name not in environment:
            raise LaunchError(f"-x {name}: the variable is not set here; expected {name}=VALUE")
        variables[name] = value if given else environment[name]
    return variables


def forwarded_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables of the launcher that workers on other hosts need."""
    return {
        name: value
        for name, value in environment.items()
        if name in _FORWARDED_NAMES or name.startswith(_FORWARDED_PREFIXES)
    }
