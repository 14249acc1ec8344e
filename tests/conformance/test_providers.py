"""The same replies through every vendor's wire and a command: the same calls, the same answers."""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from ksi_client import Client, connect
from ksi_daemon.testing import running_daemon, short_directory
from tests.serving import Answer, Exchange, serving

DATA = Path(__file__).resolve().parents[1] / "data" / "providers"
PATHS = {
    "anthropic": "/v1/messages",
    "gemini": "/v1/models/m:streamGenerateContent?alt=sse",
    "ollama": "/v1/api/chat",
    "openai": "/v1/chat/completions",
}
TEXTS = {
    path.parent.name: path.read_bytes()
    for path in DATA.glob("*/text.*")
    if not path.name.endswith(".expected.json")
}
SAID = 'Grüße 😀: {"event": "agent:status", "data": {"status": "ready"}}\nDone.'
ARGS = {"status": "ready"}


@asynccontextmanager
async def daemon() -> AsyncIterator[Client]:
    with short_directory() as directory:
        async with running_daemon(directory / "v") as socket, connect(str(socket)) as ksi:
            yield ksi


def streams(vendor: str, body: bytes) -> Answer:
    async def answer(exchange: Exchange) -> None:
        ndjson = vendor == "ollama"
        await exchange.begin(media_type="application/x-ndjson" if ndjson else "text/event-stream")
        await exchange.chunk(body)
        await exchange.end()

    return answer


async def statuses(ksi: Client) -> list[dict[str, Any]]:
    found = await ksi.request("monitor:get_events", {"patterns": ["agent:status"]})
    return [
        {"data": each["data"], "status": each["status"], "dialect": each["call"]["dialect"]}
        for each in found["events"]
    ]


@pytest.mark.parametrize("vendor", sorted(PATHS))
@pytest.mark.conformance
async def test_S003_32_the_same_text_over_each_wire(vendor: str) -> None:
    async with serving(streams(vendor, TEXTS[vendor])) as server, daemon() as ksi:
        provider = {"type": vendor, "model": "m", "base_url": server.url}
        await ksi.request(
            "agent:spawn", {"agent_id": "a", "system": "Be brief.", "provider": provider}
        )
        await ksi.send("a", "Well?")
        found = await statuses(ksi)
    [asked] = server.exchanges
    assert asked.line.split()[1] == PATHS[vendor]
    assert "tools" not in asked.body
    assert found == [{"data": ARGS | {"agent_id": "a"}, "status": "handled", "dialect": "event"}]


@pytest.mark.parametrize(
    "provider",
    [
        pytest.param({"type": "scripted", "replies": [SAID]}, id="scripted"),
        pytest.param({"type": "cli", "argv": [sys.executable, "-c", f"print({SAID!r})"]}, id="cli"),
        pytest.param(
            {"type": "faulty", "of": {"type": "scripted", "replies": [SAID]}, "slips": 0},
            id="faulty",
        ),
    ],
)
@pytest.mark.conformance
async def test_S003_32_the_same_text_without_a_wire(provider: dict[str, Any]) -> None:
    async with daemon() as ksi:
        await ksi.request("agent:spawn", {"agent_id": "a", "system": "s", "provider": provider})
        await ksi.send("a", "Well?")
        found = await statuses(ksi)
    assert found == [{"data": ARGS | {"agent_id": "a"}, "status": "handled", "dialect": "event"}]


def sse(*events: Any) -> bytes:
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()


def anthropic(*blocks: Any) -> bytes:
    started = (
        {"type": "content_block_start", "index": at, "content_block": block}
        for at, block in enumerate(blocks)
    )
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    return sse(*started, end, {"type": "message_stop"})


def gemini(*parts: Any) -> bytes:
    return sse({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]})


def ollama(**message: Any) -> bytes:
    return json.dumps({"message": message, "done": True, "done_reason": "stop"}).encode()


def openai(**delta: Any) -> bytes:
    return sse({"choices": [{"delta": delta, "finish_reason": "stop"}]})


FUNCTION = {"name": "agent_status", "arguments": json.dumps(ARGS)}
CALLS = {
    "anthropic": anthropic(
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "tool_use", "id": "toolu_1", "name": "agent_status", "input": ARGS},
    ),
    "gemini": gemini(
        {"functionCall": {"name": "agent_status", "args": ARGS}, "thoughtSignature": "c2ln"}
    ),
    "ollama": ollama(tool_calls=[{"function": {"name": "agent_status", "arguments": ARGS}}]),
    "openai": openai(tool_calls=[{"index": 0, "id": "call_1", "function": FUNCTION}]),
}
ENDS = {
    "anthropic": anthropic({"type": "text", "text": "Done."}),
    "gemini": gemini({"text": "Done."}),
    "ollama": ollama(content="Done."),
    "openai": openai(content="Done."),
}


def replayed(vendor: str, body: dict[str, Any]) -> tuple[Any, Any]:
    """Return the call and its result as the second request has them, without made-up ids."""
    if vendor == "gemini":
        call, result = (content["parts"][0] for content in body["contents"][-2:])
        return call, result["functionResponse"]["name"]
    if vendor == "anthropic":
        call, result = (message["content"] for message in body["messages"][-2:])
        return call, result[0]["tool_use_id"]
    call, result = body["messages"][-2:]
    [entry] = call["tool_calls"]
    return entry["function"], entry["id"] == result["tool_call_id"]


SENT = {
    "anthropic": (
        [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "tool_use", "id": "toolu_1", "name": "agent_status", "input": ARGS},
        ],
        "toolu_1",
    ),
    "gemini": (
        {"functionCall": {"name": "agent_status", "args": ARGS}, "thoughtSignature": "c2ln"},
        "agent_status",
    ),
    "ollama": ({"name": "agent_status", "arguments": ARGS}, True),
    "openai": ({"name": "agent_status", "arguments": json.dumps(ARGS)}, True),
}


@pytest.mark.parametrize("vendor", sorted(PATHS))
@pytest.mark.conformance
async def test_S004_40_native_calls_over_each_wire(vendor: str) -> None:
    answers = (streams(vendor, CALLS[vendor]), streams(vendor, ENDS[vendor]))
    async with serving(*answers) as server, daemon() as ksi:
        provider = {
            "type": vendor,
            "model": "m",
            "base_url": server.url,
            "capabilities": {"native_tool_calls": True},
        }
        fields = {"system": "s", "tools": ["agent:status"], "protocol": "native_auto"}
        await ksi.request("agent:spawn", {"agent_id": "a", "provider": provider, **fields})
        answer = await ksi.send("a", "Well?")
        found = await statuses(ksi)
    assert (answer["text"], answer["turns"]) == ("Done.", 2)
    assert found == [{"data": ARGS | {"agent_id": "a"}, "status": "handled", "dialect": "native"}]
    assert replayed(vendor, server.exchanges[1].body) == SENT[vendor]


async def test_an_agent_may_not_have_a_command_run_as_a_provider() -> None:
    command = {"type": "cli", "argv": ["true"]}
    asks = [
        {"event": "completion:run", "data": {"prompt": "p", "provider": command}},
        {"event": "agent:spawn", "data": {"system": "s", "provider": command}},
    ]
    script = {"type": "scripted", "replies": ["\n".join(map(json.dumps, asks))]}
    async with daemon() as ksi:
        allow = ["completion:run", "agent:spawn"]
        fields = {"agent_id": "a", "system": "s", "provider": script, "allow": allow}
        await ksi.request("agent:spawn", fields)
        answer = await ksi.send("a", "Go.")
    assert [(call["name"], call["error"]["message"]) for call in answer["calls"]] == [
        ("completion:run", "an agent may not choose a provider object"),
        ("agent:spawn", "an agent may not choose a provider object"),
    ]


async def test_a_command_ends_with_its_agent(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    os.mkfifo(told)
    program = (
        "import os, sys, time\n"
        "with open(sys.argv[1], 'w') as told: told.write(str(os.getpid()))\n"
        "time.sleep(600)"
    )
    command = {"type": "cli", "argv": [sys.executable, "-c", program, str(told)]}
    async with daemon() as ksi:
        fields = {"agent_id": "a", "system": "s", "provider": command}
        await ksi.request("agent:spawn", fields)
        await ksi.send("a", "Go.", wait=False)
        process = os.pidfd_open(int(await anyio.Path(told).read_text()))
        await ksi.request("agent:terminate", {"agent_id": "a"})
        ended, _, _ = await anyio.to_thread.run_sync(select.select, [process], [], [], 20)
        os.close(process)
    assert ended
