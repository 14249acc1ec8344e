"""Each vendor's wire against a server that we have not written: aimock, from npm.

It takes the requests of all four vendors for one and the same, so what it answers shows what it
has understood: a second turn is only found if it has read the call and the result of the first.
"""

from __future__ import annotations

import json
import select
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ksi_daemon.errors import ProviderError
from ksi_daemon.extraction.native import read_native, replay
from ksi_daemon.providers import Completion, Message, Provider, Request, Tool
from ksi_daemon.providers.anthropic import Anthropic
from ksi_daemon.providers.anthropic import Spec as AnthropicSpec
from ksi_daemon.providers.gemini import Gemini
from ksi_daemon.providers.gemini import Spec as GeminiSpec
from ksi_daemon.providers.http import HttpProvider
from ksi_daemon.providers.ollama import Ollama
from ksi_daemon.providers.ollama import Spec as OllamaSpec
from ksi_daemon.providers.openai import OpenAI
from ksi_daemon.providers.openai import Spec as OpenAISpec
from ksi_daemon.providers.wire import Vendor
from tests.node_programs import node, program

VENDORS = ("anthropic", "gemini", "ollama", "openai")
PATHS = {"anthropic": "/v1", "gemini": "/v1beta", "ollama": "", "openai": "/v1"}
SAID = 'Grüße 😀: {"event": "agent:status", "data": {"status": "ready"}}\nDone.'
CALL = {"id": "call_1", "name": "get_weather", "arguments": {"location": "SF"}}
TOOL = Tool(
    "get_weather",
    "The weather at a place.",
    {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]},
)


def on(user: str, response: Any, **fields: Any) -> dict[str, Any]:
    match = {"userMessage": user, **fields.pop("match", {})}
    return {"match": match, "response": response, **fields}


FIXTURES = [
    on("system?", {"content": "read"}, match={"systemMessage": "Be brief."}),
    on("say", {"content": SAID}),
    on("weather", {"content": "It is sunny."}, match={"toolResultContains": "sunny, 20"}),
    on(
        "weather",
        {"content": "I look.", "toolCalls": [CALL]},
        match={"toolName": "get_weather", "hasToolResult": False},
    ),
    on(
        "limit",
        {"error": {"message": "m", "type": "rate_limit_error"}, "status": 429, "retryAfter": 7},
    ),
    on("busy", {"error": {"message": "m", "type": "overloaded_error"}, "status": 529}),
    on("wrong", {"error": {"message": "no", "type": "invalid_request_error"}, "status": 400}),
    on("garble", {"content": "x"}, chaos={"malformedRate": 1}),
    on("drop", {"content": "x"}, chaos={"dropRate": 1}),
    on("hang up", {"content": "x"}, chaos={"disconnectRate": 1}),
    on("break off", {"content": SAID}, truncateAfterChunks=4, chunkSize=5, latency=25),
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("aimock")
    (directory / "f.json").write_text(json.dumps({"fixtures": FIXTURES}))
    # Debian's node is too old for it; npm has a newer one.
    command = [node(), program("llmock"), "-p", "0", "-f", str(directory), "--strict"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            yield _address(process)
        finally:
            process.kill()


def _address(process: subprocess.Popen[bytes]) -> str:
    """Return the address that the server prints when it listens."""
    assert process.stdout is not None
    said: list[str] = []
    while select.select([process.stdout], [], [], 60)[0]:
        line = process.stdout.readline().decode()
        said.append(line)
        if "listening on " in line:
            return line.split("listening on ")[1].strip()
        if not line:
            break
    raise AssertionError(f"aimock does not start: {said}")


def wire(name: str, url: str) -> Vendor:
    base_url = url + PATHS[name]
    if name == "anthropic":
        return Anthropic(AnthropicSpec(model="m", base_url=base_url))
    if name == "gemini":
        return Gemini(GeminiSpec(model="m", base_url=base_url))
    if name == "ollama":
        return Ollama(OllamaSpec(model="m", base_url=base_url))
    return OpenAI(OpenAISpec(model="m", base_url=base_url))


@asynccontextmanager
async def once(name: str, url: str) -> AsyncIterator[Provider]:
    """Give a provider without retries."""
    provider = HttpProvider(wire(name, url))
    try:
        yield provider
    finally:
        await provider.aclose()


async def ask(name: str, url: str, *messages: Message, **fields: Any) -> Completion:
    async with once(name, url) as provider:
        return await provider.complete(Request(messages=messages, **fields))


async def refusal(name: str, url: str, user: str) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await ask(name, url, Message("user", user))
    return caught.value


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.conformance
async def test_S003_32_the_same_text_whoever_says_it(url: str, vendor: str) -> None:
    pieces: list[str] = []
    async with once(vendor, url) as provider:
        request = Request(messages=(Message("user", "say"),))
        completion = await provider.complete(request, pieces.append)
    assert (completion.text, completion.stop_reason) == (SAID, "stop")
    assert "".join(pieces) == SAID
    assert len(pieces) > 1
    assert completion.message is None


@pytest.mark.parametrize("vendor", VENDORS)
async def test_the_system_prompt_arrives(url: str, vendor: str) -> None:
    completion = await ask(vendor, url, Message("system", "Be brief."), Message("user", "system?"))
    assert completion.text == "read"


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.conformance
async def test_S004_40_a_native_call_and_its_result(url: str, vendor: str) -> None:
    asked = Message("user", "weather")
    first = await ask(vendor, url, asked, tools=(TOOL,))
    found = read_native(first.message)
    [call] = found.calls
    assert (call.name, call.args, found.residual) == ("get_weather", {"location": "SF"}, "I look.")
    assert first.stop_reason is not None
    second = await ask(
        vendor,
        url,
        asked,
        Message("assistant", first.text, native=replay(first.message, found=found)),
        Message("tool", "sunny, 20 degrees", name=call.name, call_id=call.id),
        tools=(TOOL,),
    )
    assert second.text == "It is sunny."


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize(
    ("user", "code", "status", "retryable"),
    [
        ("limit", "provider_rate_limited", 429, True),
        ("busy", "provider_error", 529, True),
        ("wrong", "provider_error", 400, False),
        ("drop", "provider_error", 500, True),
        ("garble", "provider_protocol", None, False),
        ("hang up", "provider_unreachable", None, True),
    ],
)
@pytest.mark.faults
async def test_P1_P2_P4_what_goes_wrong(
    url: str, vendor: str, user: str, code: str, status: int | None, retryable: bool
) -> None:
    error = await refusal(vendor, url, user)
    assert (error.code, error.status, error.retryable) == (code, status, retryable)
    assert error.retry_after_s == (7 if status == 429 else None)


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.faults
async def test_P5_a_stream_that_breaks_off(url: str, vendor: str) -> None:
    completion = await ask(vendor, url, Message("user", "break off"))
    assert completion.text
    assert SAID.startswith(completion.text)
    assert (completion.stop_reason, completion.message) == (None, None)
