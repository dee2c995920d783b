"""The binding: declarations like the header's, errors as exceptions, the store."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from tfring import errors, native

HEADER = (Path(__file__).parents[2] / "custom_ops" / "engine" / "c_api.h").read_text()


def fields_of(struct: str) -> list[str]:
    body = re.search(rf"typedef struct {struct} \{{(.*?)\}} {struct};", HEADER, re.DOTALL)
    assert body is not None
    without_comments = re.sub(r"/\*.*?\*/", "", body.group(1), flags=re.DOTALL)
    return re.findall(r"(\w+);", without_comments)


@pytest.mark.parametrize(
    ("name", "structure"),
    [
        ("tfr_tensor", native.Tensor),
        ("tfr_request", native.Request),
        ("tfr_counters", native.Counters),
    ],
)
def test_structures_are_those_of_the_header(name, structure):
    assert [field for field, _ in structure._fields_] == fields_of(name)


def test_codes_are_those_of_the_header():
    codes = dict(re.findall(r"TFR_(\w+) = (\d+)", HEADER.split("typedef enum tfr_code")[1]))
    kinds = {
        "INVALID_ARGUMENT": errors.InvalidArgumentError,
        "MISMATCH": errors.MismatchError,
        "PEER_LOST": errors.PeerLostError,
        "STALLED": errors.StalledError,
        "TIMEOUT": errors.RendezvousTimeoutError,
        "SHUT_DOWN": errors.ShutDownError,
        "NOT_INITIALIZED": errors.NotInitializedError,
        "UNAUTHENTICATED": errors.AuthenticationError,
        "IO": errors.TransportError,
        "INTERNAL": errors.InternalError,
    }
    for name, kind in kinds.items():
        assert type(errors.error_for(int(codes[name]), "m")) is kind
        assert int(codes[name]) == kind.code


def test_every_declared_function_is_in_the_header():
    for name in native._FUNCTIONS:
        assert re.search(rf"\b{name}\(", HEADER), name


def test_store_keeps_and_counts():
    with (
        native.StoreServer("127.0.0.1", secret="s") as server,
        native.StoreClient("127.0.0.1", server.port, secret="s", timeout_s=10) as client,
    ):
        client.set("key", b"a\0b")
        assert client.get("key", timeout_s=1) == b"a\0b"
        assert client.add("n", 3) == 3
        assert client.add("n", -1) == 2
        client.delete("key")
        with pytest.raises(errors.RendezvousTimeoutError, match="key"):
            client.get("key", timeout_s=0.05)


def test_wrong_secret_is_refused():
    with (
        native.StoreServer("127.0.0.1", secret="right") as server,
        pytest.raises(errors.AuthenticationError),
    ):
        native.StoreClient("127.0.0.1", server.port, secret="wrong", timeout_s=10)


def test_taken_port_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(errors.TransportError, match=str(port)):
            native.StoreServer("127.0.0.1", port, secret="s")


def test_unreachable_store_is_named():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(errors.TfringError, match=f"127.0.0.1:{port}"):
        native.StoreClient("127.0.0.1", port, secret="s", timeout_s=0.3)


def test_unknown_host_is_named():
    with pytest.raises(errors.TfringError, match=r"no-such-host\.invalid"):
        native.StoreClient("no-such-host.invalid", 1, secret="s", timeout_s=0.3)
