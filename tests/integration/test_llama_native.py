"""Native calls of a server that we have not written: llama.cpp's, on the wires of two vendors.

The model writes calls as many open models do, in tags; the server takes them out of the text.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ksi_daemon.errors import ProviderError
from ksi_daemon.extraction.native import read_native, replay
from ksi_daemon.providers import Completion, Message, Provider, Request, Tool
from ksi_daemon.providers.anthropic import Anthropic
from ksi_daemon.providers.anthropic import Spec as AnthropicSpec
from ksi_daemon.providers.http import HttpProvider
from ksi_daemon.providers.openai import OpenAI
from ksi_daemon.providers.openai import Spec as OpenAISpec
from tests.integration.tiny_model import Emission, llama_server

TEMPLATE = """\
{%- if tools %}<|im_start|>system
<tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
</tools>
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call><|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == 'assistant' and message.tool_calls %}
<|im_start|>assistant
{{ message.content }}
{%- for tool_call in message.tool_calls %}
<tool_call>
{"name": "{{ tool_call.function.name }}", "arguments": {{ tool_call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{%- elif message.role == 'tool' %}
<|im_start|>user
<tool_response>
{{ message.content }}
</tool_response><|im_end|>
{%- else %}
<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
<|im_start|>assistant
<|speak|>
{%- endif %}"""
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"location": "SF"}}\n</tool_call>'
GOOD = Emission("good", 0.5, f"I look.\n{CALL}")
# Cut off, it would be taken for the beginning of a call.
BAD = Emission("bad", 0.5, "Then.\n" + CALL.replace('": "', '" "'))
TOOL = Tool(
    "get_weather",
    "The weather at a place.",
    {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]},
)
ASK = Message("user", "Well?")


@pytest.fixture(scope="module")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with llama_server(tmp_path_factory.mktemp("llama"), (GOOD, BAD), TEMPLATE) as url:
        yield url


@asynccontextmanager
async def asking(vendor: str, base_url: str) -> AsyncIterator[Provider]:
    wire = (
        OpenAI(OpenAISpec(model="tiny", base_url=base_url))
        if vendor == "openai"
        else Anthropic(AnthropicSpec(model="tiny", base_url=base_url))
    )
    provider = HttpProvider(wire)
    try:
        yield provider
    finally:
        await provider.aclose()


def asked(seed: int, *more: Message, **fields: Any) -> Request:
    return Request(messages=(ASK, *more), tools=(TOOL,), extra={"seed": seed}, **fields)


async def good(vendor: str, base_url: str, *more: Message, **fields: Any) -> Completion:
    """Return the first completion in which the model writes a call as it should."""
    async with asking(vendor, base_url) as provider:
        for seed in range(40):
            try:
                completion = await provider.complete(asked(seed, *more, **fields))
            except ProviderError:
                continue
            if completion.text.startswith("I look."):
                return completion
    raise AssertionError("the model never writes a call as it should")


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
@pytest.mark.conformance
async def test_S004_40_a_call_and_its_result(base_url: str, vendor: str) -> None:
    completion = await good(vendor, base_url)
    found = read_native(completion.message)
    [call] = found.calls
    assert (call.name, call.args) == ("get_weather", {"location": "SF"})
    assert (completion.text, completion.stop_reason) == ("I look.\n", "tool_calls")
    assert completion.usage.output_tokens > 0
    said = Message("assistant", completion.text, native=replay(completion.message, found=found))
    result = Message("tool", "sunny", name=call.name, call_id=call.id)
    again = await good(vendor, base_url, said, result)
    assert again.usage.input_tokens > completion.usage.input_tokens
    assert read_native(again.message).calls[0].args == {"location": "SF"}


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
@pytest.mark.conformance
async def test_S004_36_arguments_that_are_cut_off_are_rejected(base_url: str, vendor: str) -> None:
    completion = await good(vendor, base_url, max_tokens=6)
    found = read_native(completion.message)
    assert completion.stop_reason == "length"
    assert (found.calls, [block.code for block in found.rejected]) == ((), ["args_json"])


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
@pytest.mark.faults
async def test_P2_the_server_fails_on_a_malformed_call(base_url: str, vendor: str) -> None:
    failures = []
    async with asking(vendor, base_url) as provider:
        for seed in range(40):
            try:
                await provider.complete(asked(seed))
            except ProviderError as error:
                failures.append((error.code, error.retryable))
                break
    assert failures == [("provider_error", True)]


async def test_a_schema_for_the_reply(base_url: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    request = Request(messages=(ASK,), max_tokens=80, extra={"seed": 1, "response_format": wanted})
    async with asking("openai", base_url) as provider:
        completion = await provider.complete(request)
    assert list(json.loads(completion.text)) == ["a"]
    assert isinstance(json.loads(completion.text)["a"], int)


async def test_text_on_the_wire_of_anthropic(base_url: str) -> None:
    pieces: list[str] = []
    async with asking("anthropic", base_url) as provider:
        request = Request(messages=(Message("system", "s"), ASK), extra={"seed": 1})
        completion = await provider.complete(request, pieces.append)
    assert completion.text in (GOOD.text, BAD.text)
    assert ("".join(pieces), completion.stop_reason) == (completion.text, "stop")
    assert (completion.model, len(pieces) > 3) == ("tiny", True)
