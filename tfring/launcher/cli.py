"""The command line of tfringrun."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from tfring import config
from tfring.errors import LaunchError, TfringError
from tfring.launcher.elastic.driver import ElasticJob
from tfring.launcher.elastic.options import add_elastic_options, elastic_spec
from tfring.launcher.environment import forwarded_variables, requested_variables
from tfring.launcher.hosts import Host, assign, parse_host_list, parse_hostfile
from tfring.launcher.job import Job
from tfring.launcher.job_spec import JobSpec
from tfring.launcher.output import Output
from tfring.launcher.ssh import Ssh
from tfring.launcher.stop_signals import StopSignals

_USAGE_ERROR = 2
_DESCRIPTION = """\
Runs COMMAND in several processes, the workers, which train one model together.

  tfringrun -np 4 python train.py
  tfringrun -np 8 -H host1:4,host2:4 python train.py
  tfringrun --min-np 2 --max-np 8 --host-discovery-script ./hosts.sh python train.py

The exit status is 0 when all workers succeed, else that of the first that failed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line `arguments` (default: the process's) to its exit status."""
    _open_standard_streams()
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.check_build:
        from tfring.launcher.check_build import report

        return report()
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("no COMMAND to run; for example: tfringrun -np 2 python train.py")
    signals = StopSignals()
    try:
        return _run(options, command, signals)
    except TfringError as error:
        print(f"tfringrun: {error}", file=sys.stderr)
        return _USAGE_ERROR


def _run(options: argparse.Namespace, command: list[str], signals: StopSignals) -> int:
    environment = config.environment()
    elastic = elastic_spec(options, lambda: _hosts(options))
    placements = [] if elastic else assign(_hosts(options), options.np)
    variables = requested_variables(options.x, environment)
    variables["PYTHONUNBUFFERED"] = variables.get("PYTHONUNBUFFERED", "1")
    if options.timeout_start is not None:
        variables["TFRING_START_TIMEOUT_S"] = f"{options.timeout_start:g}"
    if options.log_level is not None:
        variables["TFRING_LOG_LEVEL"] = options.log_level
    if options.network_interface:
        variables["TFRING_NETWORK_INTERFACE"] = options.network_interface
    if options.timeline is not None:
        variables["TFRING_TIMELINE"] = options.timeline
    if options.timeline_detail:
        variables["TFRING_TIMELINE_DETAIL"] = "1"
    if options.autotune:
        variables["TFRING_AUTOTUNE"] = "1"
    if options.commit_dir is not None:
        variables["TFRING_COMMIT_DIRECTORY"] = os.path.abspath(options.commit_dir)
    # Wrong values end here, not in every worker.
    settings = config.Config.from_environment(
        {**environment, **variables, "TFRING_RANK": "0", "TFRING_SIZE": "1"}
    )
    output = Output(
        prefix=not options.no_prefix,
        timestamp=options.timestamp,
        directory=options.output_dir,
        stopping=signals.received,
    )
    spec = JobSpec(
        command=command,
        placements=placements,
        ssh=Ssh(
            python=options.remote_python or sys.executable,
            port=options.ssh_port,
            identity_file=options.ssh_identity_file,
            connect_timeout_s=max(1, math.ceil(settings.start_timeout_s)),
        ),
        variables=variables,
        remote_variables=forwarded_variables(environment),
        network_interface=settings.network_interface,
        start_timeout_s=settings.start_timeout_s,
        heartbeat_timeout_s=settings.heartbeat_timeout_s,
        commit_directory=settings.commit_directory,
        grace_s=options.grace,
        end_with_stdin=options.end_with_stdin,
        verbose=options.verbose,
        directory=_directory(),
        timeline=settings.timeline and os.path.abspath(settings.timeline),
    )
    job = ElasticJob(spec, elastic, output, signals) if elastic else Job(spec, output, signals)
    return job.run()


def _open_standard_streams() -> None:
    """Opens those that the caller has closed, or pipes would get their numbers."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise LaunchError(
            "the working directory, where the workers shall run, has been deleted"
        ) from None


def _hosts(options: argparse.Namespace) -> list[Host]:
    if options.hosts is not None:
        return parse_host_list(options.hosts)
    if options.hostfile is not None:
        try:
            text = options.hostfile.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise LaunchError(f"cannot read the hostfile {options.hostfile}: {error}") from error
        return parse_hostfile(text, str(options.hostfile))
    if options.np is None and options.max_np is not None:
        return [Host("localhost", options.max_np)]
    if options.np is None:
        raise LaunchError("say how many workers to start, with -np, or where, with -H")
    return [Host("localhost", options.np)]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(_USAGE_ERROR, f"tfringrun: {message}\nTry tfringrun --help.\n")


class _Version(argparse.Action):
    def __init__(self, option_strings: list[str], dest: str, **_: object) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        import importlib.metadata  # takes longer than all the rest

        print(f"tfringrun {importlib.metadata.version('tfring')}")
        parser.exit(0)


def _number(
    kind: Callable[[str], float], lowest: float, highest: float, expected: str
) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not lowest <= value <= highest:
            raise argparse.ArgumentTypeError(f"received {text!r}, expected {expected}")
        return value

    return parse


def _parser() -> _Parser:
    parser = _Parser(
        prog="tfringrun",
        usage="tfringrun -np N [options] COMMAND [argument ...]",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    seconds = _number(float, 0.001, 1e9, "seconds, more than 0")
    workers = _number(int, 1, 100_000, "a whole number of at least 1")
    add = parser.add_argument
    add("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="what each worker runs")
    add("-np", "--np", type=workers, metavar="N", help="number of workers; default: all slots")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        *("-H", "--hosts"), metavar="HOST:SLOTS,...", help="hosts, and how many workers each takes"
    )
    where.add_argument(
        "--hostfile", type=Path, metavar="FILE", help="the same, one a line: `host slots=4`"
    )
    add("-x", action="append", default=[], metavar="NAME[=VALUE]", help="variable for the workers")
    _add_remote_options(parser)
    _add_output_options(parser)
    add(
        *("--timeout-start",),
        type=seconds,
        metavar="SECONDS",
        help="until all hosts have answered and all workers have joined; default: 120",
    )
    add(
        "--grace",
        type=_number(float, 0, 1e9, "seconds, at least 0"),
        default=5.0,
        metavar="SECONDS",
        help="between SIGTERM and SIGKILL when workers are ended; default: %(default)g",
    )
    add(
        "--end-with-stdin",
        action="store_true",
        help="end the job when standard input closes; for programs that start tfringrun",
    )
    _add_training_options(parser)
    add_elastic_options(parser, workers, seconds)
    add("--check-build", action="store_true", help="print what is installed and exit")
    add("--version", action=_Version)
    return parser


def _add_remote_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("other hosts (reached with ssh, without passwords)")
    add = group.add_argument
    port = _number(int, 1, 65535, "a port, 1 to 65535")
    add("--ssh-port", type=port, metavar="PORT", help="port of their sshd")
    add("--ssh-identity-file", metavar="FILE", help="private key")
    add("--remote-python", metavar="PATH", help="Python there; default: the path of this one")
    add("--network-interface", metavar="NAME", help="interface for all connections, e.g. eth0")


def _add_training_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("training")
    add = group.add_argument
    add("--timeline", metavar="FILE", help="write a timeline of all ranks, for ui.perfetto.dev")
    add("--timeline-detail", action="store_true", help="with each piece of work in it")
    add("--autotune", action="store_true", help="search the best bucket size in the first steps")


def _add_output_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    add = group.add_argument
    add("--no-prefix", action="store_true", help="leave out the [rank] before each line")
    add("--timestamp", action="store_true", help="put the time before each line")
    add("--output-dir", type=Path, metavar="DIR", help="also write DIR/rank-N.log")
    add("--verbose", action="store_true", help="report where workers start and how they end")
    add("--log-level", choices=config.LOG_LEVELS, help="of the workers' engine")


if __name__ == "__main__":
    sys.exit(main())
