from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ksi_daemon.log.export.record import Record
from ksi_daemon.log.export.spans import CLIENT, INTERNAL, span

NewRecord = Callable[..., Record]

CALL = '{"id":"ksiu_1","dialect":"event","start":3,"end":9,"repairs":["comment"]}'
OURS = {
    "ksi.seq": 7, "ksi.event": "state:set", "ksi.source": "agent:ann", "ksi.status": "handled",
    "gen_ai.agent.id": "ann",
}  # fmt: skip


@pytest.mark.parametrize(
    ("given", "name", "kind", "attributes"),
    [
        pytest.param({}, "state:set", INTERNAL, OURS, id="an event"),
        pytest.param(
            {"call": CALL},
            "execute_tool state:set",
            INTERNAL,
            OURS | {
                "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "state:set",
                "gen_ai.tool.call.id": "ksiu_1", "gen_ai.tool.type": "function",
                "ksi.dialect": "event", "ksi.repairs": ["comment"],
            },
            id="a call",
        ),
        pytest.param(
            {"call": CALL, "name": "tool:call", "data": '{"name":"weather"}'},
            "execute_tool weather",
            INTERNAL,
            OURS | {
                "ksi.event": "tool:call", "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "weather", "gen_ai.tool.call.id": "ksiu_1",
                "gen_ai.tool.type": "function", "ksi.dialect": "event",
                "ksi.repairs": ["comment"],
            },
            id="a call of a tool",
        ),
        pytest.param(
            {"name": "completion:result", "reply": {"provider": "gemini"}},
            "chat m1",
            CLIENT,
            OURS | {
                "ksi.event": "completion:result", "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "gcp.gemini", "gen_ai.request.model": "m1",
                "gen_ai.response.model": "m1", "gen_ai.response.id": "e7",
                "gen_ai.response.finish_reasons": ["stop"], "gen_ai.usage.input_tokens": 11,
                "gen_ai.usage.output_tokens": 5, "gen_ai.conversation.id": "ann", "ksi.turn": 1,
                "ksi.preset": "ksi",
            },
            id="a reply",
        ),
        pytest.param(
            {"name": "agent:send", "data": '{"agent_id":"bob"}'},
            "invoke_agent bob",
            INTERNAL,
            OURS | {
                "ksi.event": "agent:send", "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.id": "bob",
            },
            id="a message to an agent",
        ),
        pytest.param(
            {"name": "agent:spawn", "data": "{}"},
            "create_agent",
            INTERNAL,
            OURS | {"ksi.event": "agent:spawn", "gen_ai.operation.name": "create_agent"} | {
                "gen_ai.agent.id": None
            },
            id="an agent without a name",
        ),
    ],
)  # fmt: skip
def test_names_and_attributes(
    new_record: NewRecord, given: dict[str, Any], name: str, kind: int, attributes: dict[str, Any]
) -> None:
    found = span(new_record(**given))
    expected = {key: value for key, value in attributes.items() if value is not None}
    assert (found.name, found.kind, found.attributes) == (name, kind, expected)


def test_a_story_is_a_trace(new_record: NewRecord) -> None:
    cause, effect = span(new_record(id="e6", cause_id=None)), span(new_record())
    assert cause.trace_id == effect.trace_id == "01a200ac3ee770eab6693e56edc4cc8f"
    assert (cause.parent_id, effect.parent_id) == (None, cause.span_id)
    assert len(span(new_record(correlation_id="no uuid")).trace_id) == 32


def test_a_reply_began_its_latency_ago(new_record: NewRecord) -> None:
    found = span(new_record(reply={"latency_us": 500}, duration_us=None))
    assert (found.end, found.end - found.start) == (1_769_860_800_000_042, 500)


def test_what_went_wrong_is_an_error(new_record: NewRecord) -> None:
    error = '{"code":"handler_failed","message":"it broke","retryable":false}'
    found = span(new_record(status="failed", error=error))
    assert (found.status, found.message) == (2, "it broke")
    assert found.attributes["error.type"] == "handler_failed"
    assert span(new_record(status="lost")).attributes["error.type"] == "lost"


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        pytest.param({"call": CALL}, "gen_ai.tool.call.arguments", '{"key":"k"}', id="arguments"),
        pytest.param({"call": CALL, "result": "7"}, "gen_ai.tool.call.result", "7", id="a result"),
        pytest.param(
            {"reply": {}, "data": '{"text":"hi"}'},
            "gen_ai.output.messages",
            '[{"role":"assistant","parts":[{"type":"text","content":"hi"}],'
            '"finish_reason":"stop"}]',
            id="a reply",
        ),
    ],
)
def test_texts_are_told_when_asked_for(
    new_record: NewRecord, given: dict[str, Any], name: str, value: str
) -> None:
    record = new_record(**given)
    assert name not in span(record).attributes
    assert span(record, content=True).attributes[name] == value
