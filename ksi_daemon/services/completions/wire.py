"""The conversation in the form in which one request sends it. Pure.

The log keeps each result as a message of role tool. What a provider is sent is made of that for
every request: where tools went out natively, results answer native calls under their own ids;
for a provider that takes the role freely they keep it; for any other they are text of the user.
So an agent may be spoken to natively today and in text tomorrow, over the same history.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final

import msgspec

from ksi_daemon.conversation import Manner
from ksi_daemon.extraction import native_names, read_native
from ksi_daemon.providers.model import Capabilities, Message, Request, Tool

__all__ = ["MISSING", "Wire", "as_user"]

# A vendor refuses a native call without a result, and an exchange may be cut off before it.
# Where a line begins as the heading of a result does, to whoever reads it.
_HEADING: Final = re.compile(r"(?im)^(?=[^\S\n]*tool result\b)")
MISSING: Final = "No result: the exchange was stopped."


class Wire:
    """A conversation as one exchange sends it. It is kept up as the conversation grows: to render
    all of it for every turn would make a long one slow."""

    def __init__(self, manner: Manner, capabilities: Capabilities) -> None:
        style = manner.agreement.settings.result_style
        wants_role = style == "tool" or (
            style == "auto" and manner.protocol.dialects[:1] == ("json_action",)
        )
        self._names = native_names(manner.schemas) if manner.native else native_names(())
        self._native = manner.native and style in ("native", "auto")
        self._role = wants_role and capabilities.free_tool_role
        self._taken = 0
        self._sent: list[Message] = []
        # Id and name of each native call that waits for its result.
        self._waiting: deque[tuple[str, str]] = deque()

    def request(self, manner: Manner, messages: Sequence[Message], model: str | None) -> Request:
        """Return what is sent for a conversation of *messages*, which only ever grows.

        It holds only what a provider knows of them. An empty system prompt and messages without
        content are left out (S003-28, S003-29). *manner* may differ from that of the exchange in
        its system prompt.
        """
        for message in islice(messages, self._taken, None):
            self._take(message)
        self._taken = len(messages)
        system = [Message("system", manner.system)] if manner.system.strip() else []
        tools = (
            Tool(self._names.to_native(tool.name), tool.description, tool.schema)
            for tool in manner.tools
        )
        return Request(
            messages=(*system, *self._sent, *map(_missing, self._waiting)),
            model=model,
            tools=tuple(tools) if manner.native else (),
        )

    def _take(self, message: Message) -> None:
        if message.role == "tool":
            self._add(self._result(message))
            return
        for waiting in self._waiting:
            self._add(_missing(waiting))
        self._waiting.clear()
        if message.native is None or self._native:
            self._waiting.extend(_calls(message))
            self._add(message)
        else:
            self._add(Message(message.role, message.content))

    def _result(self, message: Message) -> Message:
        """Return a result in its form. Those of native calls come first, in the calls' order."""
        if self._waiting:
            call_id, name = self._waiting.popleft()
            return msgspec.structs.replace(message, call_id=call_id, name=name)
        if self._role:
            return msgspec.structs.replace(message, call_id=None)
        return as_user(message)

    def _add(self, message: Message) -> None:
        """Add a message; neighbours that are text of one role are one.

        Several vendors refuse a conversation in which roles do not alternate.
        """
        if not message.content.strip() and message.native is None and message.role != "tool":
            return
        before = self._sent[-1] if self._sent else None
        if before is not None and before.role == message.role and _is_text(before, message):
            content = f"{before.content}\n\n{message.content}"
            self._sent[-1] = Message(message.role, content)
        else:
            self._sent.append(message)


def as_user(message: Message) -> Message:
    """Return a result as text of the user.

    A line in it that would pass for the beginning of another result is quoted; all else is as it
    was (CONFORMANCE S003-21).
    """
    content = _HEADING.sub("> ", message.content)
    return Message("user", f"Tool Result ({message.name}):\n{content}")


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


def _missing(waiting: tuple[str, str]) -> Message:
    call_id, name = waiting
    return Message("tool", MISSING, name, call_id, is_error=True)


def _is_text(*messages: Message) -> bool:
    return all(each.role != "tool" and each.native is None for each in messages)
