"""Requests out and frames in: the client's side of the protocol, without a socket."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final, Literal, TypedDict, TypeVar, Unpack, overload

import msgspec

from ksi_client.errors import DaemonError
from ksi_daemon.events import ErrorInfo, Event, Piece, Status
from ksi_daemon.protocol import FrameReader, FrameTooLarge, Wire

__all__ = [
    "GRACE_S",
    "MAX_FRAME",
    "PATIENCE_S",
    "Answer",
    "Ending",
    "Frame",
    "Frames",
    "Options",
    "Push",
    "Request",
    "too_late",
]

T = TypeVar("T")

# Replies may be large and come from our own daemon; the limit only stops a runaway.
MAX_FRAME: Final = 1 << 30
# How long a daemon that went away is waited for.
PATIENCE_S: Final = 10.0
# The daemon keeps the time limit of a request; this is for a daemon that cannot.
GRACE_S: Final = 2.0
_NULL: Final = msgspec.Raw(b"null")


class Options(TypedDict, total=False):
    """How a request is to be taken.

    *wait* "handled" (default): the answer is the handler's result; "logged": it comes as soon
    as the event is durable. *timeout*: seconds after which DaemonError ``timeout`` is raised;
    the event itself goes on. *idempotency_key*: the same key with the same event and data is
    taken once, however often it is sent. *correlation_id*: the story that the event joins.
    *human*: a person asks, as approvals want it.
    """

    wait: Literal["handled", "logged"]
    timeout: float | None
    idempotency_key: str | None
    correlation_id: str | None
    human: bool


class Request(msgspec.Struct, frozen=True):
    """One request, the same bytes however often it is sent."""

    id: int
    line: bytes

    @classmethod
    def of(cls, id: int, event: str, data: object = None, **options: Unpack[Options]) -> Request:
        """Return the request for *event* with *data*, an object or its JSON as ``msgspec.Raw``.

        Without a key of the caller's it gets a random one: that is what makes it safe to send
        again when the connection broke before the answer came. For reads the daemon ignores it.
        """
        options["idempotency_key"] = options.get("idempotency_key") or os.urandom(16).hex()
        payload = data if isinstance(data, msgspec.Raw) else msgspec.Raw(_encode(data or {}))
        return cls(id, _encode(Wire(event=event, data=payload, id=id, **options)) + b"\n")


class Answer(msgspec.Struct, frozen=True):
    """What the daemon answered: the handler's *result* as JSON, and where the event is logged.

    *seq* is None for reads, which are not logged. *duplicate*: the event had been taken before
    under the same idempotency key and was not taken again.
    """

    result: msgspec.Raw
    seq: int | None = None
    durable: str | None = None
    duplicate: bool = False

    @overload
    def read(self) -> Any: ...
    @overload
    def read(self, type: type[T]) -> T: ...
    def read(self, type: Any = Any) -> Any:
        """Return the result decoded, as *type* if one is given."""
        return msgspec.json.decode(self.result, type=type)


class Ending(msgspec.Struct, frozen=True, omit_defaults=True):
    """How an event ended: *result* of its handler, or *error*."""

    status: Status
    result: Any = None
    error: ErrorInfo | None = None
    duration_ms: float | None = None


class Push(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a subscription brings: an *event*, the *outcome* of the event that has this *seq*, or a
    piece of *text* of a reply that is being written, some of which may be left out."""

    seq: int
    event: Event | None = None
    outcome: Ending | None = None
    text: Piece | None = None


class Frame(msgspec.Struct, frozen=True):
    """Any line from the daemon: a reply, or with *subscription* a push."""

    id: str | int | None = None
    ok: bool = False
    result: msgspec.Raw = _NULL
    error: ErrorInfo | None = None
    seq: int | None = None
    durable: str | None = None
    duplicate: bool = False
    subscription: str | None = None
    event: Event | None = None
    outcome: Ending | None = None
    text: Piece | None = None
    lagged: bool = False
    closing: bool = False

    def answer(self) -> Answer:
        """Return the reply's answer, or raise DaemonError."""
        if not self.ok:
            raise DaemonError(self.error or ErrorInfo("bad_reply", "a refusal without an error"))
        return Answer(self.result, self.seq, self.durable, self.duplicate)


class Frames:
    """The frames in a stream of bytes."""

    def __init__(self) -> None:
        self._reader = FrameReader(MAX_FRAME)

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """Yield each frame that *chunk* completes; raise DaemonError ``bad_reply`` for no frame."""
        try:
            for line in self._reader.feed(chunk):
                yield _decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, FrameTooLarge) as exc:
            error = ErrorInfo("bad_reply", f"what the daemon sent is no frame: {exc}")
            raise DaemonError(error) from exc


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Frame).decode


def too_late(event: str, timeout: float | None) -> DaemonError:
    """Return the error for an answer that a daemon that hangs did not give in time."""
    return DaemonError(ErrorInfo("timeout", f"no answer to {event!r} within {timeout} s"))
