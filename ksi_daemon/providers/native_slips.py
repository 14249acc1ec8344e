"""What models do to a native call when they write it: the slips of ``slips``, in its arguments.

Arguments are JSON text in OpenAI's form, which most servers speak. In other vendors' forms they
are objects, and none of these slips can be made in an object.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Final

from ksi_daemon.extraction import read_native
from ksi_daemon.providers.slips import SLIPS

__all__ = ["lost", "slipped"]

_DUPLICATE: Final = "duplicate"

Message = Mapping[str, Any]


def slipped(message: Message, kind: str, rng: random.Random) -> dict[str, Any] | None:
    """Return *message* with the slip *kind* in one of its calls, None if it finds no place."""
    calls = list(message.get("tool_calls") or ())
    places = [at for at, call in enumerate(calls) if _arguments(call)]
    if not places or not (kind in SLIPS or kind == _DUPLICATE):
        return None
    at = rng.choice(places)
    if kind == _DUPLICATE:
        calls.insert(at + 1, _renamed(calls[at], "again"))
        return {**message, "tool_calls": calls}
    arguments = SLIPS[kind](_arguments(calls[at]), rng)
    if arguments is None:
        return None
    calls[at] = {**calls[at], "function": {**calls[at]["function"], "arguments": arguments}}
    return {**message, "tool_calls": calls}


def lost(meant: Message, said: Message) -> dict[str, Any] | None:
    """Return *meant* with just the calls that are not read from *said*, under ids of their own.

    None if there are none, or if nobody is told of it.
    """
    found = read_native(said)
    if not found.rejected:
        return None
    read = {call.id for call in found.calls}
    calls = [_renamed(call, "more") for call in meant["tool_calls"] if call["id"] not in read]
    return {**meant, "content": "", "tool_calls": calls} if calls else None


def _arguments(call: Any) -> str:
    """Return the arguments of a call as text, empty if they are none."""
    function = call.get("function") if isinstance(call, Mapping) else None
    arguments = function.get("arguments") if isinstance(function, Mapping) else None
    return arguments if isinstance(arguments, str) else ""


def _renamed(call: Message, suffix: str) -> dict[str, Any]:
    return {**call, "id": f"{call.get('id')}_{suffix}"}
