"""Bodies in the shape of each vendor's recorded ones, over a real socket, split anywhere.

Each file of tests/data/providers/VENDOR has the completion that it means beside it.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    async with serving(sends(body, MEDIA[path.suffix], cuts)) as server:
        provider = HttpProvider(vendor(path.parent.name, server.url))
        try:
            return await provider.complete(ASK, pieces.append), pieces
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
    assert {path.parent.name for path in FILES} == {"anthropic", "gemini", "ollama", "openai"}
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
