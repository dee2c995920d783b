"""The native engine, by ctypes: the declarations of `custom_ops/engine/c_api.h`."""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path
from types import TracebackType
from typing import Any

from tfring.config import Config
from tfring.errors import TfringError, error_for

ABI_VERSION = 3

# Kinds of operations.
ALLREDUCE, BROADCAST, ALLGATHER, BARRIER = range(4)

TIMEOUT = 5  # of tfr_code

AllocateFunction = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_int32, POINTER(c_int64), c_int32)


class Tensor(ctypes.Structure):
    """tfr_tensor."""

    _fields_ = [
        ("input", c_void_p),
        ("output", c_void_p),
        ("dims", POINTER(c_int64)),
        ("rank", c_int32),
    ]


class Request(ctypes.Structure):
    """tfr_request."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("process_set", c_int64),
        ("kind", c_int),
        ("dtype", c_int),
        ("reduce_op", c_int),
        ("root", c_int32),
        ("prescale", c_double),
        ("postscale", c_double),
        ("tensors", POINTER(Tensor)),
        ("num_tensors", c_int32),
        ("allocate", AllocateFunction),
        ("allocate_arg", c_void_p),
    ]


class Counters(ctypes.Structure):
    """tfr_counters."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("operations", c_int64),
        ("failures", c_int64),
        ("allreduce_operations", c_int64),
        ("allreduce_bytes", c_int64),
        ("allreduce_seconds", c_double),
        ("allreduce_busy_seconds", c_double),
        ("wait_seconds", c_double),
        ("sent_bytes", c_int64),
        ("received_bytes", c_int64),
        ("allreduce_tail_seconds", c_double),
    ]


_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "tfr_abi_version": (c_int, []),
    "tfr_last_error": (c_char_p, []),
    "tfr_init": (c_int, [c_char_p]),
    "tfr_shutdown": (c_int, []),
    "tfr_interrupt": (None, [c_int64, c_char_p]),
    "tfr_is_initialized": (c_int, []),
    **{
        f"tfr_{name}": (c_int, [])
        for name in [
            "rank",
            "size",
            "local_rank",
            "local_size",
            "cross_rank",
            "cross_size",
            "health",
        ]
    },
    "tfr_add_process_set": (c_int, [POINTER(c_int), c_int, POINTER(c_int64)]),
    "tfr_remove_process_set": (c_int, [c_int64]),
    "tfr_run_for": (c_int, [POINTER(Request), c_double, POINTER(c_void_p)]),
    "tfr_wait": (c_int, [c_void_p, c_double]),
    "tfr_get_counters": (c_int, [POINTER(Counters)]),
    "tfr_timeline_start": (c_int, [c_char_p, c_int, c_int, c_int64]),
    "tfr_timeline_stop": (c_int, []),
    "tfr_timeline_recording": (c_int, []),
    "tfr_timeline_span": (None, [c_char_p, c_int64, c_int64, c_int64]),
    "tfr_timeline_instant": (None, [c_char_p]),
    "tfr_store_server_start": (c_int, [c_char_p, c_int, c_char_p, POINTER(c_void_p)]),
    "tfr_store_server_port": (c_int, [c_void_p]),
    "tfr_store_server_stop": (None, [c_void_p]),
    "tfr_store_client_connect": (c_int, [c_char_p, c_int, c_char_p, c_double, POINTER(c_void_p)]),
    "tfr_store_client_close": (None, [c_void_p]),
    "tfr_store_set": (c_int, [c_void_p, c_char_p, c_char_p, c_size_t]),
    "tfr_store_get": (c_int, [c_void_p, c_char_p, c_double, POINTER(c_void_p), POINTER(c_size_t)]),
    "tfr_store_add": (c_int, [c_void_p, c_char_p, c_int64, POINTER(c_int64)]),
    "tfr_store_delete": (c_int, [c_void_p, c_char_p]),
    "tfr_free": (None, [c_void_p]),
}


def library_dir() -> Path:
    """The folder that holds libtfring.so and libtfring_tf.so."""
    configured = Config.from_environment(rank=0, size=1).library_dir
    return Path(configured) if configured else Path(__file__).with_name("lib")


@functools.cache
def load() -> ctypes.CDLL:
    """The engine's library.

    Raises:
        TfringError: It has not been built, or is of another version.
    """
    path = library_dir() / "libtfring.so"
    if not path.exists():
        raise TfringError(
            f"the native library is not at {path}: install tfring with pip, or run `make install`"
        )
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    version = library.tfr_abi_version()
    if version != ABI_VERSION:
        raise TfringError(
            f"{path} has interface version {version}, this Python code expects {ABI_VERSION}: "
            "install tfring again"
        )
    return library


def check(code: int) -> None:
    """Raises what a failed call of the library has left for this thread."""
    if code != 0:
        raise error_for(code, load().tfr_last_error().decode(errors="replace"))


class StoreServer:
    """A store served from this process, for a job's ranks to meet in.

    Args:
        host: IP address or name to listen on; "" for all interfaces.
        port: 0 for any free one.
        secret: What clients must know.

    Raises:
        TransportError: The address can't be had.
    """

    def __init__(self, host: str = "", port: int = 0, *, secret: str) -> None:
        self._handle = c_void_p()
        check(
            load().tfr_store_server_start(
                host.encode(), port, secret.encode(), ctypes.byref(self._handle)
            )
        )
        self.port: int = load().tfr_store_server_port(self._handle)

    def stop(self) -> None:
        """Closes all connections; nothing when stopped already."""
        if self._handle:
            load().tfr_store_server_stop(self._handle)
            self._handle = c_void_p()

    def __enter__(self) -> StoreServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


class StoreClient:
    """A connection to a store. Any thread may call; one call is under way at a time.

    Raises:
        AuthenticationError: The secret is not the server's.
        RendezvousTimeoutError, TransportError: Nobody answered within `timeout_s` seconds.
    """

    def __init__(self, host: str, port: int, *, secret: str, timeout_s: float = 30.0) -> None:
        self._handle = c_void_p()
        check(
            load().tfr_store_client_connect(
                host.encode(), port, secret.encode(), timeout_s, ctypes.byref(self._handle)
            )
        )

    def close(self) -> None:
        if self._handle:
            load().tfr_store_client_close(self._handle)
            self._handle = c_void_p()

    def set(self, key: str, value: bytes) -> None:
        check(load().tfr_store_set(self._handle, key.encode(), value, len(value)))

    def get(self, key: str, *, timeout_s: float) -> bytes:
        """Waits for the key; RendezvousTimeoutError names it."""
        memory, size = c_void_p(), c_size_t()
        check(
            load().tfr_store_get(
                self._handle, key.encode(), timeout_s, ctypes.byref(memory), ctypes.byref(size)
            )
        )
        try:
            return ctypes.string_at(memory, size.value)
        finally:
            load().tfr_free(memory)

    def add(self, key: str, delta: int) -> int:
        """Adds to a counter that starts at 0 and returns its new value."""
        value = c_int64()
        check(load().tfr_store_add(self._handle, key.encode(), delta, ctypes.byref(value)))
        return value.value

    def delete(self, key: str) -> None:
        check(load().tfr_store_delete(self._handle, key.encode()))

    def __enter__(self) -> StoreClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
