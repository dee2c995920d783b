"""What the wire gives to one plain TCP stream from each rank to the next."""

from __future__ import annotations

import socket
import threading
import time

import numpy as np

from benchmarks.engines.engine import Array, Engine, Run
from benchmarks.workloads import Workload

CONNECT_LIMIT_S = 30.0
PORT = 7000
CHUNK_BYTES = 2**20


class PlainTcp(Engine):
    """Sends and receives the bytes that an allreduce must, 2 (n - 1) / n times the buffer.

    Nothing is framed, computed or kept: no allreduce over these sockets can be faster.

    Args:
        rank: This process's number.
        size: How many there are.
        meeting_place: The addresses of all ranks' hosts, with commas between them.
    """

    title = "plain TCP"

    def __init__(self, rank: int, size: int, meeting_place: str) -> None:
        self.rank, self.size = rank, size
        self._addresses = meeting_place.split(",")

    def join(self) -> None:
        listener = socket.create_server((self._addresses[self.rank], PORT + self.rank))
        accepted: list[socket.socket] = []
        accepting = threading.Thread(target=lambda: accepted.append(listener.accept()[0]))
        accepting.start()
        self._outgoing = self._connect((self.rank + 1) % self.size)
        accepting.join(CONNECT_LIMIT_S)
        listener.close()
        self._incoming = accepted[0]
        self._outgoing.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _connect(self, rank: int) -> socket.socket:
        deadline = time.monotonic() + CONNECT_LIMIT_S
        while True:
            try:
                return socket.create_connection((self._addresses[rank], PORT + rank), timeout=60)
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def prepare(self, work: Workload, value: float) -> Run:
        total = 2 * (self.size - 1) * work.bytes // self.size
        source, target = memoryview(bytes(CHUNK_BYTES)), bytearray(CHUNK_BYTES)

        def send() -> None:
            for begin in range(0, total, CHUNK_BYTES):
                self._outgoing.sendall(source[: min(CHUNK_BYTES, total - begin)])

        def receive() -> None:
            left = total
            while left > 0:
                left -= self._incoming.recv_into(target, min(CHUNK_BYTES, left))

        def run() -> None:
            if total <= CHUNK_BYTES // 16:  # the socket takes it at once
                send()
                receive()
                return
            sender = threading.Thread(target=send)
            sender.start()
            receive()
            sender.join()

        return run

    def results(self) -> list[Array]:
        return [np.zeros(0)]

    def check(self, run: Run) -> None:
        run()

    def leave(self) -> None:
        self._outgoing.close()
        self._incoming.close()
