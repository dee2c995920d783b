"""Names of this machine and addresses towards others."""

from __future__ import annotations

import socket

import pytest

from tfring.errors import LaunchError
from tfring.launcher.addresses import address_towards, is_this_machine


def test_this_machine() -> None:
    for name in ("localhost", "127.0.0.1", "::1", socket.gethostname()):
        assert is_this_machine(name), name
    # 192.0.2.0/24 is for documentation.
    for name in ("192.0.2.1", "somewhere.example.org"):
        assert not is_this_machine(name), name


def test_loopback_leads_to_loopback() -> None:
    assert address_towards(["127.0.0.1"]) == "127.0.0.1"


def test_unknown_names_are_an_error() -> None:
    with pytest.raises(LaunchError, match=r"no route .* host\.invalid .*--network-interface"):
        address_towards(["host.invalid"])


def test_one_known_name_is_enough() -> None:
    assert address_towards(["host.invalid", "127.0.0.1"]) == "127.0.0.1"
