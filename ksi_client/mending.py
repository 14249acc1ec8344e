"""Mending a call by hand: the text as its author left it, read again when it was edited."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from ksi_daemon.errors import KsiError
from ksi_daemon.extraction import PRESETS, extract, protocol

__all__ = ["Mended", "read_call", "read_mended", "to_edit"]

_LINE: Final = "-" * 72


class Mended(NamedTuple):
    """A call as it shall be submitted."""

    event: str
    data: dict[str, Any]


def to_edit(attempt: Mapping[str, Any]) -> str:
    """Return what an editor is to show of *attempt*: what was wrong, then the text."""
    error = attempt.get("error") or {}
    told = f"attempt #{attempt['seq']}, {attempt['code']}: {error.get('message', '')}"
    about = " ".join(told.split())
    asked = "Mend the call below this line; leave nothing to give up."
    return f"{about}\n{asked}\n{_LINE}\n{attempt['text']}"


def read_mended(text: str, dialect: str) -> Mended | None:
    """Return the one call in *text* below the line, None if nothing is left there.

    It is read like a reply, in *dialect* first. Raise KsiError (``not_mended``) if it holds no
    call, or several.
    """
    below = text.partition(f"{_LINE}\n")[2] if f"{_LINE}\n" in text else text
    if not below.strip():
        return None
    known = PRESETS["any"].dialects
    order = tuple(dict.fromkeys((dialect, *known))) if dialect in known else known
    found = extract(below, protocol("any", dialects=order))
    if len(found.calls) == 1 and not found.rejected:
        [call] = found.calls
        return Mended(call.name, call.args)
    wrong = "; ".join(f"{block.code}: {block.message}" for block in found.rejected)
    count = len(found.calls)
    raise KsiError(
        f"what was edited holds {count or 'no'} call{'s' * (count != 1)}, and one is wanted"
        + (f": {wrong}" if wrong else ""),
        code="not_mended",
    )


def read_call(text: str) -> Mended:
    """Return the call that *text* says as ``{"event": …, "data": {…}}``; raise KsiError."""
    try:
        call = msgspec.json.decode(text, type=_Call)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as exc:
        raise KsiError(
            f"that is no call: {exc}",
            code="not_mended",
            hint='write {"event": "state:set", "data": {"key": "k", "value": 1}}',
        ) from exc
    return Mended(call.event, call.data)


class _Call(msgspec.Struct, forbid_unknown_fields=True):
    event: str
    data: dict[str, Any] = {}
