"""What the launcher and a host's agent say to each other, over pipes or ssh.

A message is one byte of kind, the rank and the length of the payload (4 bytes each, big
endian), and the payload. The agent's side begins with the line MAGIC: what a login shell
printed before it is noise.

    launcher to agent                        agent to launcher
    START   workers to start (JSON)          HELLO     the agent is there
    STOP    end all workers: grace_s (JSON)  STARTED   a worker runs: its pid (JSON)
    KILL    end one worker, at once          WORD      what it tells the driver (JSON)
                                             DYING     it is about to have exited
                                             FAILED    it could not be started (JSON)
                                             STDOUT, STDERR   bytes that it wrote
                                             EXITED    its exit status (JSON), at once
                                             TIMELINE  bytes of its part of the timeline
                                             FINISHED  all output sent, no process left
"""

from __future__ import annotations

import enum
import json
import struct
from dataclasses import dataclass
from typing import Any

# Grows with every change that an older side would misread.
MAGIC = b"\ntfring agent 2\n"
_HEADER = struct.Struct(">cII")
# Nothing legitimate is larger: output is sent as it is read, 64 KiB at a time.
MAX_PAYLOAD = 16 << 20


class Kind(enum.Enum):
    """What a message says."""

    START = b"s"
    STOP = b"x"
    KILL = b"k"
    HELLO = b"h"
    STARTED = b"r"
    WORD = b"w"
    DYING = b"y"
    FAILED = b"f"
    STDOUT = b"o"
    STDERR = b"e"
    EXITED = b"d"
    TIMELINE = b"t"
    FINISHED = b"q"


class ProtocolError(Exception):
    """The bytes are no message."""


@dataclass(frozen=True)
class Message:
    """One message; `rank` is 0 where it concerns no rank."""

    kind: Kind
    rank: int = 0
    payload: bytes = b""

    def json(self) -> dict[str, Any]:
        """The payload of a message whose payload is JSON."""
        value = json.loads(self.payload)
        if not isinstance(value, dict):
            raise ProtocolError(f"{self.kind.name} carries {value!r}, expected an object")
        return value


def encode(kind: Kind, rank: int = 0, payload: bytes | dict[str, Any] = b"") -> bytes:
    """The bytes of a message."""
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return _HEADER.pack(kind.value, rank, len(data)) + data


class Decoder:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """The messages that `data` completes.

        Raises:
            ProtocolError: The stream is not ours.
        """
        self._buffer += data
        messages = []
        while len(self._buffer) >= _HEADER.size:
            kind, rank, length = _HEADER.unpack_from(self._buffer)
            if length > MAX_PAYLOAD:
                raise ProtocolError(f"a message of {length} bytes, at most {MAX_PAYLOAD} expected")
            end = _HEADER.size + length
            if len(self._buffer) < end:
                break
            try:
                known = Kind(kind)
            except ValueError as error:
                raise ProtocolError(f"a message of unknown kind {kind!r}") from error
            messages.append(Message(known, rank, bytes(self._buffer[_HEADER.size : end])))
            del self._buffer[:end]
        return messages
