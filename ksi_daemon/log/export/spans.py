"""Events as spans of OpenTelemetry, named by its conventions for generative AI. Pure.

The conventions are not stable. Every name that comes from them is in ``Names`` and nowhere else;
what has no name there is an attribute that begins with ``ksi.``.

A story is a trace: its correlation id is a UUID, which has as many bits as a trace id. An event is
a span below the event that caused it. A reply is a span that ends when the reply was there and
began its latency earlier. What agents and models write is in no span unless it is asked for.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from ksi_daemon.log.export.record import Record, Reply

__all__ = ["CLIENT", "INTERNAL", "Names", "Span", "span"]

# Numbers of the protocol: SpanKind and StatusCode.
INTERNAL: Final = 1
CLIENT: Final = 3
_ERROR: Final = 2
_UNSET: Final = 0


class Names:
    """The conventions' names of attributes and operations that are used here."""

    OPERATION: Final = "gen_ai.operation.name"
    CHAT: Final = "chat"
    CREATE_AGENT: Final = "create_agent"
    INVOKE_AGENT: Final = "invoke_agent"
    EXECUTE_TOOL: Final = "execute_tool"
    PROVIDER: Final = "gen_ai.provider.name"
    REQUEST_MODEL: Final = "gen_ai.request.model"
    RESPONSE_MODEL: Final = "gen_ai.response.model"
    RESPONSE_ID: Final = "gen_ai.response.id"
    FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
    INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
    OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
    CONVERSATION: Final = "gen_ai.conversation.id"
    AGENT_ID: Final = "gen_ai.agent.id"
    TOOL_NAME: Final = "gen_ai.tool.name"
    TOOL_CALL: Final = "gen_ai.tool.call.id"
    TOOL_TYPE: Final = "gen_ai.tool.type"
    FUNCTION: Final = "function"
    TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
    TOOL_RESULT: Final = "gen_ai.tool.call.result"
    OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
    ERROR_TYPE: Final = "error.type"


# What providers are called there, where that is not what they are called here.
_PROVIDERS: Final = {"gemini": "gcp.gemini"}
_OF_AGENTS: Final = {"agent:spawn": Names.CREATE_AGENT, "agent:send": Names.INVOKE_AGENT}
_GONE_WRONG: Final = frozenset({"failed", "timeout", "denied", "unknown", "rejected", "lost"})


class Span(NamedTuple):
    """One span; times are in microseconds, *status* is a StatusCode."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: int
    start: int
    end: int
    status: int
    message: str | None
    attributes: dict[str, Any]


def span(record: Record, *, content: bool = False) -> Span:
    """Return the span of an event; *content*: with the texts, arguments and results in it."""
    name, kind, attributes = _described(record, content=content)
    wrong = record.status in _GONE_WRONG
    if wrong:
        attributes[Names.ERROR_TYPE] = record.error_code or record.status
    return Span(
        trace_id=_trace_id(record.correlation_id),
        span_id=_span_id(record.id),
        parent_id=None if record.cause_id is None else _span_id(record.cause_id),
        name=name,
        kind=kind,
        start=record.ts - (record.reply.latency_us if record.reply else 0),
        end=record.end,
        status=_ERROR if wrong else _UNSET,
        message=_message(record) if wrong else None,
        attributes={key: value for key, value in attributes.items() if value is not None},
    )


def _described(record: Record, *, content: bool) -> tuple[str, int, dict[str, Any]]:
    """Return the span's name, its kind and its attributes."""
    ours = {
        "ksi.seq": record.seq,
        "ksi.event": record.name,
        "ksi.source": record.source,
        "ksi.status": record.status,
        Names.AGENT_ID: record.agent_id,
    }
    if record.reply is not None:
        return (
            f"{Names.CHAT} {record.reply.model}",
            CLIENT,
            ours | _chat(record, record.reply, content),
        )
    if record.call is not None:
        tool = _tool(record)
        return f"{Names.EXECUTE_TOOL} {tool}", INTERNAL, ours | _call(record, tool, content)
    operation = _OF_AGENTS.get(record.name)
    if operation is not None:
        agent_id = msgspec.json.decode(record.data).get("agent_id")
        name = f"{operation} {agent_id}" if isinstance(agent_id, str) else operation
        return name, INTERNAL, ours | {Names.OPERATION: operation, Names.AGENT_ID: agent_id}
    return record.name, INTERNAL, ours


def _chat(record: Record, reply: Reply, content: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        Names.OPERATION: Names.CHAT,
        Names.PROVIDER: _PROVIDERS.get(reply.provider, reply.provider),
        Names.REQUEST_MODEL: reply.model,
        Names.RESPONSE_MODEL: reply.model,
        Names.RESPONSE_ID: record.id,
        Names.FINISH_REASONS: [reply.stop_reason] if reply.stop_reason else None,
        Names.INPUT_TOKENS: reply.input_tokens,
        Names.OUTPUT_TOKENS: reply.output_tokens,
        Names.CONVERSATION: record.agent_id,
        "ksi.turn": reply.turn,
        "ksi.preset": reply.preset,
    }
    if content:
        text = msgspec.json.decode(record.data).get("text")
        parts = [{"type": "text", "content": text}]
        message = {"role": "assistant", "parts": parts, "finish_reason": reply.stop_reason}
        found[Names.OUTPUT_MESSAGES] = msgspec.json.encode([message]).decode()
    return found


def _call(record: Record, tool: str, content: bool) -> dict[str, Any]:
    call = msgspec.json.decode(record.call or "{}")
    found = {
        Names.OPERATION: Names.EXECUTE_TOOL,
        Names.TOOL_NAME: tool,
        Names.TOOL_CALL: call.get("id"),
        Names.TOOL_TYPE: Names.FUNCTION,
        "ksi.dialect": call.get("dialect"),
        "ksi.repairs": call.get("repairs") or None,
    }
    if content:
        found |= {Names.TOOL_ARGUMENTS: record.data, Names.TOOL_RESULT: record.result}
    return found


def _tool(record: Record) -> str:
    """Return what was called: the tool of a ``tool:call``, else the event."""
    if record.name == "tool:call":
        name = msgspec.json.decode(record.data).get("name")
        if isinstance(name, str):
            return name
    return record.name


def _message(record: Record) -> str | None:
    return None if record.error is None else str(msgspec.json.decode(record.error)["message"])


def _trace_id(correlation_id: str) -> str:
    """Return 32 hexadecimal digits: those of a UUID, of another text its digest's."""
    try:
        return UUID(correlation_id).hex
    except ValueError:
        return sha256(correlation_id.encode()).hexdigest()[:32]


def _span_id(event_id: str) -> str:
    # The halves of a UUID of version 7 are not unique: one is time, and calls add to their
    # completion's id.
    return sha256(event_id.encode()).hexdigest()[:16]
