"""The options of tfringrun that make a job elastic."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from tfring.errors import LaunchError
from tfring.launcher.elastic.discovery import Discovery, FixedHosts
from tfring.launcher.elastic.driver import ElasticSpec
from tfring.launcher.elastic.roster import Limits
from tfring.launcher.hosts import Host

_NO_LIMIT = 100_000


def add_elastic_options(
    parser: argparse.ArgumentParser,
    workers: Callable[[str], float],
    seconds: Callable[[str], float],
) -> None:
    """Adds them.

    Args:
        parser: Of tfringrun.
        workers: Reads a number of workers.
        seconds: Reads a time.
    """
    group = parser.add_argument_group(
        "elastic jobs, which workers may leave and join (any of the first three makes one)"
    )
    add = group.add_argument
    add("--min-np", type=workers, metavar="N", help="workers to go on with; default: 1")
    add("--max-np", type=workers, metavar="N", help="workers at most; default: -np, or all slots")
    add(
        "--host-discovery-script",
        metavar="COMMAND",
        help="prints the hosts of now, `host:slots` a line; runs once a second",
    )
    add(
        "--elastic-timeout",
        type=seconds,
        default=600.0,
        metavar="SECONDS",
        help="how long to wait for --min-np workers; default: %(default)g",
    )
    add("--reset-limit", type=workers, metavar="N", help="changes of membership at most")
    add(
        "--restart-on-error",
        action="store_true",
        help="replace workers that fail by an error of their own, too",
    )
    add(
        "--cooldown",
        type=seconds,
        default=10.0,
        metavar="SECONDS",
        help="how long a host that loses workers again and again gets none, at first; doubles "
        "each time; default: %(default)g",
    )
    add("--commit-dir", metavar="DIR", help="where states are committed, for another start")


def elastic_spec(
    options: argparse.Namespace, hosts: Callable[[], Sequence[Host]]
) -> ElasticSpec | None:
    """What the options ask for; None if not for an elastic job.

    Args:
        options: As parsed.
        hosts: Returns the hosts that other options name.

    Raises:
        LaunchError: They contradict each other.
    """
    script = options.host_discovery_script
    if options.min_np is None and options.max_np is None and script is None:
        return None
    if script is not None and (options.hosts is not None or options.hostfile is not None):
        raise LaunchError("--host-discovery-script says what -H and --hostfile say: give one")
    source = Discovery(script) if script is not None else FixedHosts(hosts())
    slots = _NO_LIMIT if script is not None else sum(host.slots for host in hosts())
    most = options.max_np or options.np or slots
    least = options.min_np or 1
    if least > most:
        raise LaunchError(f"--min-np {least}: expected at most {most}, the number of workers")
    if least > slots:
        raise LaunchError(f"--min-np {least}: the hosts have {slots} slots")
    return ElasticSpec(
        limits=Limits(least, most),
        hosts=source,
        patience_s=options.elastic_timeout,
        reset_limit=options.reset_limit,
        restart_on_error=options.restart_on_error,
        cooldown_s=options.cooldown,
    )
