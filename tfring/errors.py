"""What can go wrong, as exceptions. Each carries the engine's message and its code."""

from __future__ import annotations


class TfringError(RuntimeError):
    """Base of all errors of tfring."""

    code = 10


class InvalidArgumentError(TfringError, ValueError):
    """The call itself is wrong; the message says what was received and what is expected."""

    code = 1


class MismatchError(TfringError):
    """Ranks asked for different things under one name; raised on every rank."""

    code = 2


class PeerLostError(TfringError):
    """A rank died, fell silent, or left while it was needed; the message names it."""

    code = 3


class StalledError(TfringError):
    """Some ranks never submitted an operation within `stall_shutdown_s`."""

    code = 4


class RendezvousTimeoutError(TfringError, TimeoutError):
    """Ranks, or the store they meet in, did not show up within `start_timeout_s`."""

    code = 5


class ShutDownError(TfringError):
    """`tfring.shutdown()` was called while the operation was pending."""

    code = 6


class NotInitializedError(TfringError):
    """`tfring.init()` has not been called, or `tfring.shutdown()` has."""

    code = 7


class AuthenticationError(TfringError):
    """The job's secret is not that of the other side."""

    code = 8


class TransportError(TfringError):
    """The system refused: an address in use, an unknown host, an unreachable network."""

    code = 9


class InternalError(TfringError):
    """A fault of tfring itself, or no memory."""

    code = 10


class MembershipChangedError(TfringError):
    """Workers join or leave; `tfring.elastic.run` goes on with those there are then."""

    code = 11


class LaunchError(TfringError):
    """`tfringrun` or `tfring.run` can't start what it was asked to, or a worker failed."""

    code = 12


_KINDS = {
    kind.code: kind
    for kind in (
        *(InvalidArgumentError, MismatchError, PeerLostError, StalledError),
        *(RendezvousTimeoutError, ShutDownError, NotInitializedError),
        *(AuthenticationError, TransportError, InternalError, MembershipChangedError),
    )
}


def error_for(code: int, message: str) -> TfringError:
    """The exception for a code of `c_api.h` (`tfr_code`)."""
    return _KINDS.get(code, InternalError)(message)
