"""All settings, and the only reader of environment variables.

A setting is what the caller gave; else its environment variable; else what another launcher
than tfringrun says (see `foreign_launchers`); else its default.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tfring.errors import InvalidArgumentError
from tfring.foreign_launchers import variables_of
from tfring.network_interface import address_of

LOG_LEVELS = ("debug", "info", "warning", "error")
ALLREDUCE_ALGORITHMS = ("exchange", "doubling", "direct", "ring")
_PREFIX = "TFRING_"


def environment() -> dict[str, str]:
    """A copy of this process's environment variables."""
    return dict(os.environ)


# ---- Kinds of values: each turns text into a value or says what it expected ----


def _whole(lowest: int, highest: int = 2**40) -> Callable[[str], int]:
    def read(text: str) -> int:
        value = int(text)
        if not lowest <= value <= highest:
            raise ValueError
        return value

    read.__doc__ = f"a whole number, {lowest} or more"
    return read


def _seconds(text: str) -> float:
    """seconds, 0 or more"""
    value = float(text)
    if not (value >= 0 and math.isfinite(value)):
        raise ValueError
    return value


def _flag(text: str) -> bool:
    """0 or 1"""
    return {"0": False, "1": True, "False": False, "True": True}[text]


def _text(text: str) -> str:
    """text without line breaks"""
    if "\n" in text:
        raise ValueError
    return text


def _log_level(text: str) -> str:
    """debug, info, warning or error"""
    if text not in LOG_LEVELS:
        raise ValueError
    return text


def _allreduce_algorithm(text: str) -> str:
    """exchange, doubling, direct or ring"""
    if text not in ALLREDUCE_ALGORITHMS:
        raise ValueError
    return text


def _host_and_port(text: str) -> str:
    """HOST:PORT"""
    host, colon, port = text.rpartition(":")
    if not (colon and host and 0 < int(port) < 65536) or "\n" in text:
        raise ValueError
    return text


def _option(default: Any, read: Callable[[str], Any], text: str) -> Any:
    return dataclasses.field(default=default, metadata={"read": read, "help": text})


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of a process. Make one with `Config.from_environment`.

    Example:
        tfring.init(tfring.Config.from_environment(stall_shutdown_s=300))
    """

    rank: int = _option(0, _whole(0), "Number of this process in the job, from 0.")
    size: int = _option(1, _whole(1), "Number of processes in the job.")
    local_rank: int = _option(0, _whole(0), "Number of this process on its host.")
    local_size: int = _option(1, _whole(1), "Number of processes on this host.")
    cross_rank: int = _option(0, _whole(0), "Number of this host in the job.")
    cross_size: int = _option(1, _whole(1), "Number of hosts in the job.")
    host_id: str = _option(
        "localhost", _text, "Processes with equal ids share memory. The launcher sets it."
    )
    store: str = _option("", _host_and_port, "Where the processes meet: `HOST:PORT`.")
    store_serve: bool = _option(
        False, _flag, "This process runs the store at that address (without tfringrun: rank 0)."
    )
    secret: str = _option(
        "", _text, "The job's secret: whoever does not know it can't join. tfringrun makes one."
    )
    generation: int = _option(0, _whole(0), "Number of the rendezvous. The launcher sets it.")
    elastic: bool = _option(
        False,
        _flag,
        "Workers may come and go: this one joins in `tfring.elastic.run`. The launcher sets it.",
    )
    worker_id: str = _option(
        "", _text, "Name of this process among the workers of an elastic job. The launcher sets it."
    )
    words: int | None = _option(
        None,
        _whole(0),
        "Descriptor for what a worker tells the driver of an elastic job. The launcher sets it.",
    )
    lifeline: int | None = _option(
        None,
        _whole(0),
        "Descriptor that is closed as soon as the process dies. The launcher sets it.",
    )
    listen_address: str = _option(
        "", _text, "IP address to listen on; default: the one that reaches the store."
    )
    network_interface: str = _option("", _text, "The same by the interface's name, such as `eth0`.")
    start_timeout_s: float = _option(
        120.0, _seconds, "Seconds that `init` waits for the other processes."
    )
    stall_warning_s: float = _option(
        60.0,
        _seconds,
        "Seconds after which a warning names the ranks that have not submitted an operation; "
        "0: never.",
    )
    stall_shutdown_s: float = _option(
        0.0, _seconds, "Seconds after which such an operation fails on every rank; 0: never."
    )
    heartbeat_timeout_s: float = _option(
        10.0,
        _seconds,
        "Seconds without a sign of life after which a rank counts as lost; 0: never.",
    )
    spin_us: int | None = _option(
        None,
        _whole(0, 1000000),
        "Microseconds that the engine looks for something to do before it sleeps; it yields the "
        "core meanwhile. Default: 100.",
    )
    allreduce_algorithm: str = _option(
        "",
        _allreduce_algorithm,
        "`exchange`, `doubling`, `direct` or `ring`, where it can run; default: what the cost "
        "model finds fastest (cost_model.md). Equal on all processes.",
    )
    log_level: str = _option(
        "warning",
        _log_level,
        "Least level of the engine's messages: `debug`, `info`, `warning` or `error`.",
    )
    bucket_bytes: int = _option(
        25 * 2**20,
        _whole(1),
        "Bytes of gradients that `DistributedOptimizer` and `DistributedGradientTape` reduce "
        "as one, unless they are told otherwise.",
    )
    autotune: bool = _option(
        False,
        _flag,
        "Find the best size of a bucket during the first steps of `fit`; see autotune.md.",
    )
    timeline: str = _option(
        "", _text, "File for a timeline of all ranks (a Chrome trace); see timeline.md."
    )
    timeline_detail: bool = _option(
        False, _flag, "Show each copy, reduction, send and receipt in it, not just their sums."
    )
    timeline_records: int = _option(
        100_000, _whole(1), "How many records a rank keeps at most (232 bytes each)."
    )
    timeline_part: str = _option(
        "", _text, "File for this rank's part of the timeline. The launcher sets it."
    )
    commit_directory: str = _option(
        "",
        _text,
        "Directory for the commits of elastic training, from which a new start resumes; see "
        "elastic.md. Default: none are written.",
    )
    library_dir: str = _option(
        "", _text, "Folder of the native libraries; default: `lib` within the package."
    )

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None, **explicit: Any) -> Config:
        """The settings of this process.

        Args:
            environ: Environment variables; default: those of the process.
            **explicit: Settings by field name; they win over variables. None: not given.

        Raises:
            InvalidArgumentError: A value is not what is expected; the message names the
                variable or argument.
        """
        own = environment() if environ is None else environ
        foreign = {} if _PREFIX + "RANK" in own else variables_of(own)
        fields = {field.name: field for field in dataclasses.fields(cls)}
        unknown = explicit.keys() - fields.keys()
        if unknown:
            raise InvalidArgumentError(
                f"unknown settings {sorted(unknown)}; there are {sorted(fields)}"
            )
        values: dict[str, Any] = {}
        for name, field in fields.items():
            variable = variable_of(name)
            if explicit.get(name) is not None:
                values[name] = _read(field, name, str(explicit[name]))
            elif own.get(variable):
                values[name] = _read(field, variable, own[variable])
            elif foreign.get(variable):
                values[name] = _read(field, variable, foreign[variable])
        config = cls(**values)
        config._check()
        return config

    def _check(self) -> None:
        for place, count in (
            *(("rank", "size"), ("local_rank", "local_size"), ("cross_rank", "cross_size")),
        ):
            if getattr(self, place) >= getattr(self, count):
                raise InvalidArgumentError(
                    f"{variable_of(place)}: expected less than {variable_of(count)}, which is "
                    f"{getattr(self, count)}, received {getattr(self, place)}"
                )
        if (self.size > 1 or self.elastic) and not self.store:
            raise InvalidArgumentError(
                f"{variable_of('store')}: expected HOST:PORT, since {variable_of('size')} is "
                f"{self.size}; received nothing. Start the job with tfringrun."
            )

    def engine_options(self) -> str:
        """The lines of "key=value" that the engine takes (`tfr_init` in `c_api.h`)."""
        listen = self.listen_address
        if not listen and self.network_interface:
            listen = address_of(self.network_interface)
        options = {
            name: getattr(self, name)
            for name in (
                *("rank", "size", "local_rank", "local_size", "cross_rank", "cross_size"),
                *("host_id", "store", "secret", "generation", "start_timeout_s"),
                *("stall_warning_s", "stall_shutdown_s", "heartbeat_timeout_s"),
                *("spin_us", "allreduce_algorithm", "log_level"),
            )
        }
        options |= {"store_serve": int(self.store_serve), "listen_address": listen}
        return "".join(
            f"{key}={value}\n" for key, value in options.items() if value not in ("", None)
        )


def variable_of(name: str) -> str:
    """The environment variable of a setting: "size" -> "TFRING_SIZE"."""
    return _PREFIX + name.upper()


def _read(field: dataclasses.Field[Any], source: str, text: str) -> Any:
    read = field.metadata["read"]
    try:
        return read(text)
    except (ValueError, KeyError):
        raise InvalidArgumentError(
            f"{source}: expected {read.__doc__}, received {text!r}"
        ) from None


def options_page() -> str:
    """docs/options.md: every setting, in Markdown."""
    lines = [
        "# Options",
        "",
        "Every setting of a process. Give it to `tfring.Config.from_environment(...)` and that",
        "to `tfring.init`, or set its environment variable; `tfringrun` passes those on to local",
        "workers, and to remote ones those that begin with `TFRING_`. The first fourteen are the",
        "launcher's business.",
        "",
        "| setting | environment variable | default | meaning |",
        "|---|---|---|---|",
    ]
    for field in dataclasses.fields(Config):
        default = "" if field.default in ("", None) else f"`{field.default}`"
        lines.append(
            f"| `{field.name}` | `{variable_of(field.name)}` | {default} "
            f"| {field.metadata['help']} |"
        )
    lines += ["", "This page is what `python -m tfring.config` prints.", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    print(options_page(), end="")
