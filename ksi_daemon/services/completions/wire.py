"""The conversation in the form in which one request sends it. Pure.

The log keeps each result as a message of role tool. What a provider is sent is made of that for
every request: where tools went out natively, results answer native calls under their own ids;
for a provider that takes the role freely they keep it; for any other they are text of the user.
So an agent may be spoken to natively today and in text tomorrow, over the same history.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from ksi_daemon.conversation import Manner
from ksi_daemon.extraction import Names, native_names, read_native
from ksi_daemon.providers.model import Capabilities, Message, Request, Tool

__all__ = ["MISSING", "as_user", "on_the_wire", "request_of"]

# A vendor refuses a native call without a result, and an exchange may be cut off before it.
MISSING: Final = "No result: the exchange was stopped."
_USER: Final = "user"


def request_of(
    manner: Manner, messages: Iterable[Message], model: str | None, capabilities: Capabilities
) -> Request:
    """Return what is sent for a conversation of *messages*: only what a provider knows of them.

    An empty system prompt and messages without content are left out (S003-28, S003-29).
    """
    names = native_names(manner.schemas)
    system = [Message("system", manner.system)] if manner.system.strip() else []
    tools = (
        Tool(names.to_native(tool.name), tool.description, tool.schema) for tool in manner.tools
    )
    return Request(
        messages=(*system, *on_the_wire(messages, manner, capabilities, names)),
        model=model,
        tools=tuple(tools) if manner.native else (),
    )


def on_the_wire(
    messages: Iterable[Message], manner: Manner, capabilities: Capabilities, names: Names
) -> list[Message]:
    """Return *messages* as a provider of *capabilities* takes them.

    Neighbours that are text of one role are one message: several vendors refuse a conversation
    in which roles do not alternate.
    """
    style = manner.agreement.settings.result_style
    native = manner.native and style in ("native", "auto")
    wants_role = style == "tool" or (
        style == "auto" and manner.protocol.dialects[:1] == ("json_action",)
    )
    rendered = _Rendered(names, native=native, role=wants_role and capabilities.free_tool_role)
    return _alternating(rendered.each(messages))


def as_user(message: Message) -> Message:
    """Return a result as text of the user."""
    return Message(_USER, f"Tool Result ({message.name}):\n{message.content}")


class _Rendered:
    """One pass over a conversation; it keeps which native calls wait for their results."""

    def __init__(self, names: Names, *, native: bool, role: bool) -> None:
        self._names = names
        self._native = native
        self._role = role
        self._waiting: deque[tuple[str, str]] = deque()

    def each(self, messages: Iterable[Message]) -> Iterator[Message]:
        for message in messages:
            if message.role == "tool":
                yield self._result(message)
                continue
            yield from self._unanswered()
            yield self._said(message)
        yield from self._unanswered()

    def _said(self, message: Message) -> Message:
        if message.native is None or self._native:
            self._waiting.extend(_calls(message))
            return message
        return Message(message.role, message.content)

    def _result(self, message: Message) -> Message:
        """Return a result in its form. Those of native calls come first, in the calls' order."""
        if self._waiting:
            call_id, name = self._waiting.popleft()
            return msgspec.structs.replace(message, call_id=call_id, name=name)
        if self._role:
            return msgspec.structs.replace(message, call_id=None)
        return as_user(message)

    def _unanswered(self) -> Iterator[Message]:
        while self._waiting:
            call_id, name = self._waiting.popleft()
            yield Message("tool", MISSING, name, call_id, is_error=True)


def _calls(message: Message) -> list[tuple[str, str]]:
    """Return id and native name of each call of a reply, in order."""
    if message.native is None:
        return []
    found = read_native(message.native)
    outcomes = [
        *((call.start, call.id, call.name) for call in found.calls),
        *((block.start, block.id, "") for block in found.rejected),
    ]
    return [(id, name) for _, id, name in sorted(outcomes)]


def _alternating(messages: Iterable[Message]) -> list[Message]:
    merged: list[Message] = []
    for message in messages:
        if not message.content.strip() and message.native is None and message.role != "tool":
            continue
        before = merged[-1] if merged else None
        if before is not None and _is_text(before) and _is_text(message, before.role):
            content = f"{before.content}\n\n{message.content}"
            merged[-1] = Message(message.role, content)
        else:
            merged.append(message)
    return merged


def _is_text(message: Message, role: str | None = None) -> bool:
    same = role is None or message.role == role
    return same and message.role != "tool" and message.native is None
