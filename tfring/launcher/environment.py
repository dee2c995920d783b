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
    """Each worker's share of the cores, in those variables that the user has not set.

    Without it every worker would start as many threads as the host has cores. TensorFlow
    reads the two that begin with TF_; OMP_NUM_THREADS is for NumPy, SciPy and the like, and
    its being set (some sites do so for every login) says nothing about TensorFlow.

    Args:
        cores: Cores of the host that the workers may use.
        local_size: Workers on the host.
        environment: What is set already.
    """
    share = max(1, cores // local_size)
    variables = {
        "OMP_NUM_THREADS": str(share),
        "TF_NUM_INTRAOP_THREADS": str(share),
        # Collectives hold no thread while they run. A second thread would be woken whenever
        # one ends, on a core that another worker computes on.
        "TF_NUM_INTEROP_THREADS": str(share),
    }
    return {name: value for name, value in variables.items() if not environment.get(name)}


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
