"""Messages between launcher and agent."""

from __future__ import annotations

import pytest

from tfring.launcher.messages import Decoder, Kind, Message, ProtocolError, encode

MESSAGES = [
    Message(Kind.HELLO),
    Message(Kind.STDOUT, 3, b"some\nbytes\0"),
    Message(Kind.EXITED, 70000, b'{"status": -9}'),
    Message(Kind.FINISHED, 1),
]


@pytest.mark.parametrize("step", [1, 2, 9, 10, 1000])
def test_any_cut_gives_the_same_messages(step: int) -> None:
    data = b"".join(encode(m.kind, m.rank, m.payload) for m in MESSAGES)
    decoder = Decoder()
    found = [m for at in range(0, len(data), step) for m in decoder.feed(data[at : at + step])]
    assert found == MESSAGES
    assert found[2].json() == {"status": -9}


@pytest.mark.parametrize(
    "data", [b"?" + bytes(8), encode(Kind.STDOUT)[:5] + b"\xff\xff\xff\xff", b"Welcome to host2!"]
)
def test_garbage_is_an_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        Decoder().feed(data)


def test_json_must_be_an_object() -> None:
    with pytest.raises(ProtocolError, match="EXITED carries 3"):
        Message(Kind.EXITED, 0, b"3").json()
