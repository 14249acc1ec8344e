"""A conversation made ready for a vendor: whose turn it is, which result answers which call.

Vendors refuse a whole conversation for one call without a result, for a result without a call, or
for a call beside which no tools are offered. A history in which that happened (a crash, another
provider, native calls switched off) must not be lost for it, so here each call gets one result, and
what cannot stand as a call or a result stands as text. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, TypeAlias

import msgspec

from ksi_daemon.extraction.dialects.base import object_args
from ksi_daemon.extraction.native import Vendor, native_names, replay, vendor_of
from ksi_daemon.providers.model import Message, Request

__all__ = ["Asked", "Conversation", "Result", "Turn", "prepare"]

_Found: TypeAlias = tuple[str | None, str, dict[str, Any]]

NO_RESULT: Final = "The call was not run."


class Asked(msgspec.Struct, frozen=True):
    """One native call of an assistant. *has_own_id* is whether its message gives *id*.

    Arguments that are no object are ``{}``: several servers fail on others in a history.
    """

    id: str
    name: str
    args: dict[str, Any]
    has_own_id: bool = True


class Result(msgspec.Struct, frozen=True):
    """What a call came to. *call* is None for a message of the role "tool" that answers none."""

    call: Asked | None
    name: str | None
    content: str
    is_error: bool = False


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What one side says: results before text, or text before calls.

    *native* is the assistant's own message if it has the shape of the vendor it goes to.
    """

    role: Literal["user", "assistant"]
    text: str = ""
    results: tuple[Result, ...] = ()
    calls: tuple[Asked, ...] = ()
    native: dict[str, Any] | None = None


class Conversation(msgspec.Struct, frozen=True):
    """*system* is all that messages of the role "system" say."""

    system: str
    turns: tuple[Turn, ...]


def prepare(request: Request, vendor: Vendor, *, free_tool_role: bool = False) -> Conversation:
    """Return the conversation of *request* for *vendor*.

    Without tools in the request there are no calls in it. Turns of one role are made into one
    where that leaves their order; empty ones are left out.
    """
    system = "\n\n".join(m.content for m in request.messages if m.role == "system" and m.content)
    turns: list[Turn] = []
    for turn in _turns(request, vendor, free_tool_role=free_tool_role):
        joined = _joined(turns[-1], turn) if turns else None
        if joined is not None:
            turns[-1] = joined
        else:
            turns.append(turn)
    return Conversation(system, tuple(turns))


def _turns(request: Request, vendor: Vendor, *, free_tool_role: bool) -> Iterator[Turn]:
    open_calls: list[Asked] = []
    count = 0
    for message in request.messages:
        if message.role == "system":
            continue
        call = _answered(message, open_calls)
        if call is not None:
            open_calls.remove(call)
            yield _result(message, call)
            continue
        yield from map(_missing, open_calls)
        open_calls = []
        if message.role == "assistant":
            turn = _said(message, vendor, count, native=bool(request.tools))
            open_calls = list(turn.calls)
            count += len(open_calls)
        elif message.role == "tool" and free_tool_role:
            turn = _result(message, None)
        else:
            turn = Turn(role="user", text=_as_text(message))
        if turn.text.strip() or turn.calls or turn.results:
            yield turn
    yield from map(_missing, open_calls)


def _answered(message: Message, open_calls: list[Asked]) -> Asked | None:
    """Return the call that *message* answers: by its id, or the next one that has no id."""
    if message.role != "tool" or message.call_id is None:
        return None
    return next(
        (call for call in open_calls if call.id == message.call_id or not call.has_own_id), None
    )


def _result(message: Message, call: Asked | None) -> Turn:
    name = call.name if call is not None else message.name
    result = Result(call, name, message.content, message.is_error)
    return Turn(role="user", results=(result,))


def _missing(call: Asked) -> Turn:
    return Turn(role="user", results=(Result(call, call.name, NO_RESULT, True),))


def _said(message: Message, vendor: Vendor, count: int, *, native: bool) -> Turn:
    """Return what the assistant says in *message*, before which there were *count* calls."""
    if not native or message.native is None:
        return Turn(role="assistant", text=message.content)
    shape = vendor_of(message.native)
    own = replay(message.native, vendor=shape)
    found = enumerate(_CALLS[shape](own), start=count + 1) if shape is not None else ()
    # A number that never changes: what is sent again is then the same, which caches need.
    calls = tuple(
        Asked(id or f"call_{number}", name, args, id is not None)
        for number, (id, name, args) in found
    )
    return Turn(
        role="assistant",
        text=message.content,
        calls=calls,
        native=own if shape == vendor and calls else None,
    )


def _as_text(message: Message) -> str:
    if message.role == "tool" and message.name and message.content.strip():
        return f"Tool Result ({message.name}):\n{message.content}"
    return message.content


def _joined(before: Turn, turn: Turn) -> Turn | None:
    """Return both as one, None if that would change the order of what they say."""
    apart = before.role != turn.role or before.calls or turn.calls or (before.text and turn.results)
    if apart:
        return None
    return Turn(
        role=turn.role,
        text="\n\n".join(text for text in (before.text, turn.text) if text),
        results=before.results + turn.results,
    )


def _openai_calls(message: dict[str, Any]) -> Iterator[_Found]:
    for entry in message.get("tool_calls", ()):
        function = entry["function"]
        yield entry["id"], _name(function["name"]), _object(function["arguments"])


def _anthropic_calls(message: dict[str, Any]) -> Iterator[_Found]:
    for block in _dicts(message["content"]):
        if block.get("type") == "tool_use":
            yield block["id"], _name(block.get("name")), _object(block.get("input"))


def _gemini_calls(message: dict[str, Any]) -> Iterator[_Found]:
    for part in _dicts(message["parts"]):
        if isinstance(call := part.get("functionCall"), dict):
            id = call.get("id")
            args = _object(call.get("args"))
            yield id if isinstance(id, str) else None, _name(call.get("name")), args


def _dicts(values: Iterable[Any]) -> Iterator[dict[str, Any]]:
    return (value for value in values if isinstance(value, dict))


def _name(name: Any) -> str:
    """Return *name* as vendors accept it: a model may have made one up."""
    written = name if isinstance(name, str) else ""
    return native_names((written,)).to_native(written)


def _object(args: Any) -> dict[str, Any]:
    found = object_args(args, "arguments", strict=False)
    return found if isinstance(found, dict) else {}


_CALLS: Final = {"openai": _openai_calls, "anthropic": _anthropic_calls, "gemini": _gemini_calls}
