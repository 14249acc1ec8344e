"""What the lines say: requests in, replies and pushed events out. JSON in UTF-8."""

from __future__ import annotations

import json
from typing import Any, Final, Literal

import msgspec

from ksi_daemon.errors import ProtocolError
from ksi_daemon.events import EMPTY, ErrorInfo, Event, Outcome, Piece

__all__ = ["Push", "Reply", "Wire", "decode_request", "encode"]


class Wire(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request as a client writes it.

    *wait* "handled" answers with the handler's result, "logged" once the event is durable.
    *timeout* is how many seconds the client is willing to wait for the result. *human*: a person
    asks, not a program; approvals are given by persons only.
    """

    event: str
    data: msgspec.Raw = EMPTY
    id: str | int | None = None
    correlation_id: str | None = None
    idempotency_key: str | None = None
    wait: Literal["handled", "logged"] = "handled"
    timeout: float | None = None
    human: bool = False


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """The one shape of an answer. *result* if *ok*, else *error*."""

    id: str | int | None = msgspec.field()
    ok: bool = msgspec.field()
    result: Any = msgspec.UNSET
    error: ErrorInfo | msgspec.UnsetType = msgspec.UNSET
    seq: int | msgspec.UnsetType = msgspec.UNSET
    durable: str | msgspec.UnsetType = msgspec.UNSET
    duplicate: bool = False


class Push(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a subscription is sent without asking.

    *event* for a committed event; *outcome* for the end of one that was pushed before it had
    ended (asked for by ``include: ["outcomes"]``); *text* for a piece of a reply that is being
    written (``include: ["text"]``): it has no place in the log, *seq* is that of the last event
    pushed, and where the connection has no room it is left out; *lagged* as the last word of a
    subscription that did not keep up: resume with ``after_seq`` = *seq*; *closing* when the
    daemon stops.
    """

    subscription: str
    seq: int
    event: Event | msgspec.UnsetType = msgspec.UNSET
    outcome: Outcome | msgspec.UnsetType = msgspec.UNSET
    text: Piece | msgspec.UnsetType = msgspec.UNSET
    lagged: bool = False
    closing: bool = False


_decoder: Final = msgspec.json.Decoder(Wire)
_encoder: Final = msgspec.json.Encoder()


def decode_request(line: bytes) -> Wire:
    """Return the request that *line* holds.

    Raise ProtocolError: ``bad_json`` if it is no JSON, ``bad_request`` if it is no request.
    """
    try:
        wire = _decoder.decode(line)
        if not line.isascii():
            str(line, "utf-8")  # the data were passed over unread
        # What is done hangs on these; a key may be written with escapes too.
        if (
            line.count(b'"event"') > 1
            or line.count(b'"data"') > 1
            or line.count(b'"idempotency_key"') > 1
            or rb"\u00" in line
        ):
            _check_keys(line)
    except msgspec.ValidationError as exc:
        raise ProtocolError(
            f"not a request: {exc}",
            hint='a request is {"id": 1, "event": "namespace:action", "data": {}}',
        ) from exc
    # RecursionError: msgspec counts nesting by the interpreter's stack.
    except (msgspec.DecodeError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as exc:
        raise ProtocolError(f"not JSON: {exc}", code="bad_json") from exc
    if rb"\u0000" in line:
        _check_names(wire)
    return wire


def encode(message: Reply | Push) -> bytes:
    """Return *message* as one line with its newline."""
    return _encoder.encode(message) + b"\n"


def _check_keys(line: bytes) -> None:
    """Refuse a key that is there twice: of two readers each could take another for the one."""
    pairs = json.loads(line, object_pairs_hook=list, parse_int=str)
    keys = [key for key, _ in pairs]
    for key in keys:
        if keys.count(key) > 1:
            raise ProtocolError(f"not a request: {key!r} is there twice")


def _check_names(wire: Wire) -> None:
    """Refuse NUL in what the log is searched by: SQLite's functions read a text up to its first."""
    for name in (wire.event, wire.correlation_id, wire.idempotency_key):
        if name is not None and "\0" in name:
            raise ProtocolError(f"not a request: NUL in {name!r}")
