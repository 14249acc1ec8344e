"""Questions between agents: who asked, and how the answer reads. Pure.

An agent that sends a message with ``reply`` gets the answer as a message of its own. Its first
line names the request and the call that asked, so that an agent with several questions knows
which one is answered.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ksi_daemon.conversation import Answer
from ksi_daemon.events import Event

__all__ = ["answer_data", "asker_of", "reply_text", "result_text"]

_AS_MEANT = ("stop", "final")


class _Asking(msgspec.Struct):
    reply: bool = False


def asker_of(cause: Event) -> str | None:
    """Return the agent that waits for the answer to the message that *cause* brought, or None."""
    if cause.name != "agent:send" or cause.agent_id is None:
        return None
    try:
        return cause.agent_id if msgspec.json.decode(cause.data, type=_Asking).reply else None
    except msgspec.MsgspecError:
        return None  # it was refused


def answer_data(agent_id: str, cause: Event, answer: Answer) -> dict[str, Any]:
    """Return the data of the notice that *agent_id* has answered."""
    return {
        "agent_id": cause.agent_id,
        "from": agent_id,
        "request_id": answer.request_id,
        "call_id": cause.call.id if cause.call else None,
        "text": answer.text,
        "finish_reason": answer.finish_reason,
    }


def reply_text(agent_id: str, cause: Event, answer: Answer) -> str:
    """Return the message that the asking agent gets."""
    call = f", your call {cause.call.id}" if cause.call else ""
    end = "" if answer.finish_reason in _AS_MEANT else f" (it ended: {answer.finish_reason})"
    return f"Answer of agent {agent_id} to request {answer.request_id}{call}{end}:\n{answer.text}"


def result_text(agent_id: str, result: Any) -> str:
    """Return the message that a parent gets of its child's result."""
    shown = result if isinstance(result, str) else msgspec.json.encode(result).decode()
    return f"Result of agent {agent_id}:\n{shown}"
