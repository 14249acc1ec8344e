"""Bodies in the shape of each vendor's recorded ones, over a real socket, split anywhere.

Each file of tests/data/providers/VENDOR has the completion that it means beside it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksi_daemon.errors import ProviderError
from ksi_daemon.extraction.native import read_native
from ksi_daemon.providers.anthropic import Anthropic
from ksi_daemon.providers.anthropic import Spec as AnthropicSpec
from ksi_daemon.providers.gemini import Gemini
from ksi_daemon.providers.gemini import Spec as GeminiSpec
from ksi_daemon.providers.http import HttpProvider
from ksi_daemon.providers.model import Completion, Message, Request
from ksi_daemon.providers.ollama import Ollama
from ksi_daemon.providers.ollama import Spec as OllamaSpec
from ksi_daemon.providers.openai import OpenAI
from ksi_daemon.providers.openai import Spec as OpenAISpec
from ksi_daemon.providers.wire import Vendor
from tests.serving import Answer, serving

DATA = Path(__file__).resolve().parents[4] / "tests" / "data" / "providers"
MEDIA = {
    ".sse": "text/event-stream",
    ".ndjson": "application/x-ndjson",
    ".json": "application/json",
}
FILES = sorted(path for path in DATA.glob("*/*") if not path.name.endswith(".expected.json"))
BODIES = {path: path.read_bytes() for path in FILES}
NAMES = ("anthropic", "gemini", "ollama", "openai")
STREAMED = {"ollama": "application/x-ndjson"}
# One piece of text in each vendor's stream.
PIECES = {
    "anthropic": b'data: {"type": "content_block_delta", "index": 0, "delta": '
    b'{"type": "text_delta", "text": "%s"}}\n\n',
    "gemini": b'data: {"candidates": [{"content": {"parts": [{"text": "%s"}]}}]}\n\n',
    "ollama": b'{"message": {"content": "%s"}}\n',
    "openai": b'data: {"choices": [{"delta": {"content": "%s"}}]}\n\n',
}
ASK = Request(messages=(Message("user", "hi"),))


def vendor(name: str, base_url: str) -> Vendor:
    if name == "anthropic":
        return Anthropic(AnthropicSpec(model="m", base_url=base_url))
    if name == "gemini":
        return Gemini(GeminiSpec(model="m", base_url=base_url))
    if name == "ollama":
        return Ollama(OllamaSpec(model="m", base_url=base_url))
    return OpenAI(OpenAISpec(model="m", base_url=base_url))


def sends(body: bytes, media_type: str, cuts: list[int]) -> Answer:
    places = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})

    async def answer(exchange: Any) -> None:
        await exchange.begin(media_type=media_type)
        for start, end in pairwise(places):
            await exchange.chunk(body[start:end])
        await exchange.end()

    return answer


async def complete(path: Path, body: bytes, cuts: list[int]) -> tuple[Completion, list[str]]:
    pieces: list[str] = []
    answer = sends(body, MEDIA[path.suffix], cuts)
    return await answered(path.parent.name, answer, pieces.append), pieces


async def answered(
    name: str, answer: Answer, on_text: Callable[[str], None] | None = None, **options: Any
) -> Completion:
    async with serving(answer) as server:
        provider = HttpProvider(vendor(name, server.url), **options)
        try:
            return await provider.complete(ASK, on_text)
        finally:
            await provider.aclose()


def check(path: Path, completion: Completion, pieces: list[str]) -> None:
    expected = json.loads(path.with_name(f"{path.name}.expected.json").read_text("utf-8"))
    found = read_native(completion.message, new_id=lambda: "new")
    calls = [[c.name, c.args, None if c.id_generated else c.id] for c in found.calls]
    assert "".join(pieces) == completion.text
    assert {
        "text": completion.text,
        "stop_reason": completion.stop_reason,
        "model": completion.model,
        "usage": [completion.usage.input_tokens, completion.usage.output_tokens],
        "calls": calls,
        "rejected": [[block.code, block.id] for block in found.rejected],
        "message": completion.message,
    } == expected


def test_every_vendor_has_bodies() -> None:
    assert {path.parent.name for path in FILES} == set(NAMES)
    assert len(FILES) >= 17


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
async def test_what_a_body_means(path: Path) -> None:
    check(path, *await complete(path, BODIES[path], []))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
async def test_it_means_the_same_byte_by_byte(path: Path) -> None:
    check(path, *await complete(path, BODIES[path], list(range(len(BODIES[path])))))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_it_means_the_same_however_it_is_split(path: Path) -> None:
    @settings(max_examples=12, deadline=None)
    @given(cuts=st.lists(st.integers(0, 20_000), max_size=40))
    def split(cuts: list[int]) -> None:
        check(path, *anyio.run(complete, path, BODIES[path], cuts))

    split()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("body", "media_type", "code"),
    [
        pytest.param(b"<html>hi</html>", "text/html", "provider_protocol", id="HTML"),
        pytest.param(b"data: <html>\n\n", None, "provider_protocol", id="HTML in the stream"),
        pytest.param(b"", "application/json", "provider_protocol", id="nothing"),
        pytest.param(b"", None, "provider_empty", id="an empty stream"),
    ],
)
@pytest.mark.faults
async def test_P4_what_is_no_answer(
    name: str, body: bytes, media_type: str | None, code: str
) -> None:
    stream = STREAMED.get(name, "text/event-stream")
    with pytest.raises(ProviderError) as caught:
        await answered(name, sends(body, media_type or stream, []))
    assert caught.value.code == code


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.faults
async def test_P6_an_answer_of_50_MB_is_cut(name: str) -> None:
    async def floods(exchange: Any) -> None:
        await exchange.begin(media_type=STREAMED.get(name, "text/event-stream"))
        for _ in range(50):
            await exchange.chunk(PIECES[name] % (b"x" * 1_000_000))

    completion = await answered(name, floods)
    limit = 4 * 1024 * 1024
    assert limit - 100 <= len(completion.text) <= limit
    assert (completion.stop_reason, completion.incomplete) == (
        None,
        "the reply is longer than the limit",
    )


# With what the event begins that says how the reply ended, and something that stands in it.
ENDS = {
    "anthropic": (b"event: ", b"message_delta"),
    "gemini": (b"data: ", b"finishReason"),
    "ollama": (b'{"model"', b"done_reason"),
    "openai": (b"data: ", b'"finish_reason": "tool_calls"'),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.faults
async def test_P5_half_a_stream_is_no_whole_reply(name: str) -> None:
    path = next(path for path in FILES if path.match(f"{name}/calls.*"))
    begins, holds = ENDS[name]
    body = BODIES[path]
    half = body[: body.rindex(begins, 0, body.index(holds))]
    completion, _ = await complete(path, half, [])
    assert (completion.text, completion.stop_reason, completion.incomplete) == (
        "I'll look it up.",
        None,
        "the stream ended without a finish reason",
    )
