"""The provider ``openai`` against a server that we have not written: llama.cpp's.

The model is made by hand (``tiny_model``), so what it says and how often is known.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from ksi_daemon.errors import ProviderError
from ksi_daemon.extraction import extract, protocol
from ksi_daemon.providers import Completion, Message, Provider, Request, build
from tests.integration.tiny_model import EMISSIONS, Emission, is_likely, llama_server

REQUESTS = 600
AT_ONCE = 4


@pytest.fixture(scope="module")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with llama_server(tmp_path_factory.mktemp("llama")) as url:
        yield url


@asynccontextmanager
async def asking(base_url: str) -> AsyncIterator[Provider]:
    provider = build({"type": "openai", "base_url": base_url, "model": "tiny"})
    try:
        yield provider
    finally:
        await provider.aclose()


def ask(seed: int, **fields: object) -> Request:
    messages = (Message("system", "Say how you are: grüße 😀"), Message("user", "Well?"))
    return Request(messages=messages, extra={"seed": seed, **fields})


async def replies(provider: Provider, count: int) -> list[Completion]:
    """Return *count* completions, each drawn with a seed of its own."""
    given: list[Completion] = []
    limit = anyio.CapacityLimiter(AT_ONCE)

    async def one(seed: int) -> None:
        async with limit:
            given.append(await provider.complete(ask(seed)))

    async with anyio.create_task_group() as tasks:
        for seed in range(count):
            tasks.start_soon(one, seed)
    return given


def test_the_probabilities_add_up() -> None:
    assert sum(emission.probability for emission in EMISSIONS) == pytest.approx(1)


async def test_clean_and_malformed_blocks_come_at_their_rates(base_url: str) -> None:
    by_text = {emission.text: emission for emission in EMISSIONS}
    async with asking(base_url) as provider:
        completions = await replies(provider, REQUESTS)
    drawn = Counter(by_text[completion.text].name for completion in completions)
    odd = {
        e.name: drawn[e.name]
        for e in EMISSIONS
        if not is_likely(drawn[e.name], e.probability, REQUESTS)
    }
    assert odd == {}
    assert {completion.stop_reason for completion in completions} == {"stop"}
    strict = sum(len(extract(c.text, protocol("ksi", repair="off")).calls) for c in completions)
    assert strict == sum(by_text[completion.text].strict for completion in completions)


async def test_a_reply_comes_as_a_stream(base_url: str) -> None:
    pieces: list[str] = []
    async with asking(base_url) as provider:
        completion = await provider.complete(ask(1), pieces.append)
    assert "".join(pieces) == completion.text
    # The token that ends a reply is counted and is no text.
    assert len(pieces) + 1 == completion.usage.output_tokens > 2
    assert completion.usage.input_tokens > len("Say how you are")
    assert completion.first_token_ms is not None
    assert (completion.model, completion.incomplete, completion.attempts) == ("tiny", None, 1)


async def test_a_seed_decides_the_reply(base_url: str) -> None:
    async with asking(base_url) as provider:
        first, second = [await provider.complete(ask(5)) for _ in range(2)]
    assert first.text == second.text


async def test_a_reply_that_hits_the_limit(base_url: str) -> None:
    request = Request(messages=ask(1).messages, max_tokens=1)
    async with asking(base_url) as provider:
        completion = await provider.complete(request)
    assert (completion.stop_reason, completion.usage.output_tokens) == ("length", 1)


async def test_a_request_that_the_server_refuses(base_url: str) -> None:
    async with asking(base_url) as provider:
        with pytest.raises(ProviderError) as caught:
            await provider.complete(ask(1, response_format={"type": "nonsense"}))
    error = caught.value
    assert (error.code, error.status, error.retryable) == ("provider_error", 400, False)
    assert error.hint is not None
    assert error.hint.startswith("the provider says: ")


@pytest.mark.parametrize("emission", EMISSIONS, ids=lambda emission: emission.name)
def test_the_table_says_what_the_blocks_are(emission: Emission) -> None:
    result = extract(emission.text, protocol("ksi", repair="off"))
    assert (len(result.calls), len(result.rejected)) == (
        emission.strict,
        emission.repaired + emission.rejected,
    )


@pytest.mark.parametrize("emission", EMISSIONS, ids=lambda emission: emission.name)
def test_the_table_says_what_is_mended(emission: Emission) -> None:
    result = extract(emission.text, protocol("ksi"), stop_reason="stop")
    repaired = sum(bool(call.repairs) for call in result.calls)
    assert (len(result.calls) - repaired, repaired, len(result.rejected)) == (
        emission.strict,
        emission.repaired,
        emission.rejected,
    )


def test_the_server_dies_with_whoever_started_it(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys, time; from tests.integration.tiny_model import llama_server\n"
        "with llama_server(pathlib.Path(sys.argv[1])) as url: print(url, flush=True); "
        "time.sleep(60)"
    )
    starter = subprocess.Popen([sys.executable, "-c", program, tmp_path], stdout=subprocess.PIPE)
    with starter:
        assert starter.stdout is not None
        assert starter.stdout.readline().startswith(b"http://127.0.0.1:")
        children = Path(f"/proc/{starter.pid}/task/{starter.pid}/children").read_text()
        server = os.pidfd_open(int(children))
        starter.kill()
        ended, _, _ = select.select([server], [], [], 10)
        os.close(server)
    assert ended == [server]
