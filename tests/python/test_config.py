"""Settings: where they come from, what is refused, what the engine is told."""

from __future__ import annotations

import pytest

from tfring.config import Config
from tfring.errors import InvalidArgumentError


def test_defaults_are_one_process_alone():
    config = Config.from_environment({})
    assert (config.rank, config.size, config.local_size, config.cross_size) == (0, 1, 1, 1)
    assert config.stall_warning_s == 60
    assert config.spin_us is None


def test_explicit_wins_over_variable_and_variable_over_default():
    environ = {"TFRING_STALL_WARNING_S": "5", "TFRING_LOG_LEVEL": "info"}
    config = Config.from_environment(environ, stall_warning_s=7)
    assert config.stall_warning_s == 7
    assert config.log_level == "info"
    assert config.heartbeat_timeout_s == 10


def test_none_and_empty_are_not_given():
    config = Config.from_environment({"TFRING_BUCKET_BYTES": ""}, log_level=None)
    assert config.bucket_bytes == 25 * 2**20
    assert config.log_level == "warning"


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("TFRING_RANK", "one", "a whole number, 0 or more"),
        ("TFRING_SIZE", "0", "a whole number, 1 or more"),
        ("TFRING_RANK", "1", "less than TFRING_SIZE"),
        ("TFRING_SIZE", "2", "TFRING_STORE: expected HOST:PORT"),
        ("TFRING_STORE", "host", "HOST:PORT"),
        ("TFRING_STORE", "host:99999", "HOST:PORT"),
        ("TFRING_STORE_SERVE", "yes", "0 or 1"),
        ("TFRING_START_TIMEOUT_S", "-1", "seconds, 0 or more"),
        ("TFRING_STALL_SHUTDOWN_S", "nan", "seconds, 0 or more"),
        ("TFRING_LOG_LEVEL", "loud", "debug, info, warning or error"),
        ("TFRING_BUCKET_BYTES", "0", "a whole number, 1 or more"),
        ("TFRING_SECRET", "a\nrank=3", "text without line breaks"),
    ],
)
def test_bad_values_are_named(variable, value, expected):
    with pytest.raises(InvalidArgumentError) as raised:
        Config.from_environment({variable: value})
    assert variable in str(raised.value)
    assert expected in str(raised.value)


def test_unknown_settings_are_refused():
    with pytest.raises(InvalidArgumentError, match="colour"):
        Config.from_environment({}, colour="red")


def test_engine_options_hold_what_is_set_and_nothing_else():
    config = Config.from_environment(
        {
            "TFRING_RANK": "1",
            "TFRING_SIZE": "2",
            "TFRING_LOCAL_RANK": "1",
            "TFRING_LOCAL_SIZE": "2",
            "TFRING_STORE": "10.0.0.1:4000",
            "TFRING_SECRET": "s",
        }
    )
    lines = config.engine_options().splitlines()
    assert "rank=1" in lines
    assert "store=10.0.0.1:4000" in lines
    assert "store_serve=0" in lines
    assert not [line for line in lines if line.startswith(("spin_us", "listen_address"))]


def test_network_interface_becomes_an_address():
    config = Config.from_environment({}, network_interface="lo")
    assert "listen_address=127.0.0.1\n" in config.engine_options()


def test_unknown_network_interface_lists_those_there_are():
    config = Config.from_environment({}, network_interface="nosuch0")
    with pytest.raises(InvalidArgumentError, match=r"'nosuch0'.*expected one of.*lo"):
        config.engine_options()


def test_allreduce_algorithm_is_handed_to_the_engine() -> None:
    config = Config.from_environment({"TFRING_ALLREDUCE_ALGORITHM": "ring"})
    assert "allreduce_algorithm=ring" in config.engine_options().splitlines()
    assert "allreduce_algorithm" not in Config.from_environment({}).engine_options()
    with pytest.raises(InvalidArgumentError, match="expected exchange, doubling, direct or ring"):
        Config.from_environment({"TFRING_ALLREDUCE_ALGORITHM": "fast"})
