"""What the debug log tells of a request, its calls and their results (CONFORMANCE S003-30).

At any other level nothing is put together: a conversation may be long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import structlog

from ksi_daemon.conversation import Manner
from ksi_daemon.extraction import Extraction
from ksi_daemon.extraction.native import NATIVE
from ksi_daemon.providers.model import Message, Request

__all__ = ["log_calls", "log_request", "log_results"]

PREVIEW: Final = 80  # characters
_NATIVE: Final = "Using native tool calling (provider-specific)"
_IN_TEXT: Final = "Using prompt-based tools (provider-agnostic)"

log = structlog.get_logger()


def log_request(request: Request, manner: Manner, kept: Sequence[Message]) -> None:
    """Tell how tools are told of, and what is sent of the messages that were *kept*."""
    if not _debugs():
        return
    if manner.tools:
        log.debug("tools_told", mode=_NATIVE if manner.native else _IN_TEXT)
    sent = [message for message in request.messages if message.role != "system"]
    log.debug(
        "messages_sanitized",
        summary=f"After sanitization: {len(sent)} messages (removed {len(kept) - len(sent)})",
        messages=[_described(n, message) for n, message in enumerate(request.messages)],
    )


def log_calls(found: Extraction) -> None:
    """Tell how many calls a reply holds."""
    if _debugs():
        native = sum(call.dialect == NATIVE for call in found.calls)
        told = len(found.calls) - native
        log.debug(
            "calls_parsed",
            summary=f"Parsed {told} prompt-based tool call(s)",
            native=native,
            rejected=len(found.rejected),
        )


def log_results(told: Sequence[Message]) -> None:
    """Tell the head and the length of each result."""
    if _debugs():
        for message in told:
            head = message.content[:PREVIEW]
            log.debug("result_told", tool=message.name, head=head, length=len(message.content))


def _described(index: int, message: Message) -> dict[str, Any]:
    return {
        "index": index,
        "role": message.role,
        "has_tools": message.native is not None,
        "has_tool_id": message.call_id is not None,
        "preview": message.content[:PREVIEW],
    }


def _debugs() -> bool:
    enabled: bool = log.bind().is_enabled_for(10)
    return enabled
