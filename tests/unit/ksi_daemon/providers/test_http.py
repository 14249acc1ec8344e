from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest

from ksi_daemon.errors import ProviderError
from ksi_daemon.providers.http import HttpProvider
from ksi_daemon.providers.model import Completion, Message, Request, Usage
from ksi_daemon.providers.ollama import Ollama
from ksi_daemon.providers.ollama import Spec as OllamaSpec
from ksi_daemon.providers.openai import OpenAI, Spec
from ksi_daemon.providers.wire import Timeouts
from tests.serving import serving

Answer = Callable[[Any], Awaitable[None]]

ASK = Request(messages=(Message("user", "hi"),))
TEXT = 'Grüße 😀: {"event": "agent:status", "data": {"status": "ready"}}'
QUICK = Timeouts(connect_s=0.02, idle_s=0.02, total_s=5)
PATIENT = Timeouts(idle_s=5, total_s=5)


def event(finish: str | None = None, **delta: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: %s\n\n" % json.dumps({"choices": [choice]}, ensure_ascii=False).encode()


USAGE = (
    b'data: {"model": "m-1", "choices": [], '
    b'"usage": {"prompt_tokens": 5, "completion_tokens": 2}}\n\n'
)
DONE = b"data: [DONE]\n\n"
WHOLE = (
    event(role="assistant", content=None)
    + event(content=TEXT[:9])
    + b": ping\n\nevent: ping\n\n"
    + event(content=TEXT[9:])
    + event("stop")
    + USAGE
    + DONE
)


def streams(*pieces: bytes, ends: bool = True) -> Answer:
    """Answer a stream of *pieces*, each in an HTTP chunk of its own; then end or break off."""

    async def answer(exchange: Any) -> None:
        await exchange.begin()
        for piece in pieces:
            await exchange.chunk(piece)
        if ends:
            await exchange.end()
        else:
            exchange.close()

    return answer


def stalls(*pieces: bytes) -> Answer:
    """Answer *pieces* and then nothing."""

    async def answer(exchange: Any) -> None:
        await exchange.begin()
        for piece in pieces:
            await exchange.chunk(piece)
        await exchange.until_gone()

    return answer


def repeats(piece: bytes, *, status: int = 200, media_type: str = "text/event-stream") -> Answer:
    """Answer *piece* for ever, one each millisecond."""

    async def answer(exchange: Any) -> None:
        await exchange.begin(status, media_type)
        while True:
            await exchange.chunk(piece)
            await asyncio.sleep(0.001)

    return answer


def says(
    body: bytes,
    *,
    status: int = 200,
    media_type: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Answer *body* at once."""
    fields = {"Content-Type": media_type, "Content-Length": str(len(body)), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())

    async def answer(exchange: Any) -> None:
        await exchange.send(f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + body)

    return answer


async def hangs(exchange: Any) -> None:
    await exchange.until_gone()


async def hangs_up(exchange: Any) -> None:
    exchange.close()


@asynccontextmanager
async def asking(
    url: str, timeouts: Timeouts = PATIENT, **options: Any
) -> AsyncIterator[HttpProvider]:
    provider = HttpProvider(OpenAI(Spec(model="m", base_url=url, timeouts=timeouts)), **options)
    try:
        yield provider
    finally:
        await provider.aclose()


async def complete(
    url: str,
    timeouts: Timeouts = PATIENT,
    on_text: Callable[[str], None] | None = None,
    **options: Any,
) -> Completion:
    async with asking(url, timeouts, **options) as provider:
        return await provider.complete(ASK, on_text)


async def failure(url: str, timeouts: Timeouts = PATIENT, **options: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await complete(url, timeouts, **options)
    return caught.value


async def test_a_stream(serving: Any) -> None:
    pieces: list[str] = []
    async with serving(streams(WHOLE)) as server:
        completion = await complete(server.url, on_text=pieces.append)
    assert completion == Completion(
        text=TEXT,
        stop_reason="stop",
        model="m-1",
        usage=Usage(5, 2),
        latency_ms=completion.latency_ms,
        first_token_ms=completion.first_token_ms,
    )
    assert pieces == [TEXT[:9], TEXT[9:]]
    assert completion.first_token_ms is not None
    assert 0 < completion.first_token_ms <= completion.latency_ms < 5000


@pytest.mark.parametrize("size", [1, 2, 3, 5, 64])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
async def test_a_stream_may_be_split_anywhere(serving: Any, size: int, newline: bytes) -> None:
    data = WHOLE.replace(b"\n", newline)
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    async with serving(streams(*pieces)) as server:
        completion = await complete(server.url)
    assert (completion.text, completion.stop_reason, completion.usage) == (
        TEXT,
        "stop",
        Usage(5, 2),
    )


async def test_a_server_that_does_not_stream(serving: Any) -> None:
    message = {"message": {"role": "assistant", "content": TEXT}, "finish_reason": "length"}
    pieces: list[str] = []
    async with serving(says(json.dumps({"choices": [message]}).encode())) as server:
        completion = await complete(server.url, on_text=pieces.append)
    assert (completion.text, completion.stop_reason, pieces) == (TEXT, "length", [TEXT])


async def test_what_the_server_is_asked(serving: Any) -> None:
    async with serving(streams(WHOLE)) as server:
        provider = HttpProvider(
            OpenAI(Spec(model="m", base_url=server.url, api_key_env="KEY")),
            environ={"KEY": "k1"},
        )
        await provider.complete(ASK)
        await provider.aclose()
    [asked] = server.exchanges
    sent = {name: asked.headers[name] for name in ("authorization", "accept", "content-type")}
    assert asked.line == "POST /v1/chat/completions HTTP/1.1"
    assert sent == {
        "authorization": "Bearer k1",
        "accept": "text/event-stream",
        "content-type": "application/json",
    }
    assert asked.body["messages"] == [{"role": "user", "content": "hi"}]
    assert asked.headers["user-agent"].startswith("ksi/")


async def test_the_key_is_read_at_each_request(serving: Any) -> None:
    environ = {"KEY": "k1"}
    async with serving(streams(WHOLE)) as server:
        vendor = OpenAI(Spec(model="m", base_url=server.url, api_key_env="KEY"))
        provider = HttpProvider(vendor, environ=environ)
        await provider.complete(ASK)
        environ["KEY"] = "k2"
        await provider.complete(ASK)
        await provider.aclose()
    keys = [exchange.headers["authorization"] for exchange in server.exchanges]
    assert keys == ["Bearer k1", "Bearer k2"]


async def test_an_error_does_not_repeat_the_key(serving: Any) -> None:
    async with serving(says(b'{"error": {"message": "bad key k1"}}', status=400)) as server:
        vendor = OpenAI(Spec(model="m", base_url=server.url, api_key_env="KEY"))
        provider = HttpProvider(vendor, environ={"KEY": "k1"})
        with pytest.raises(ProviderError) as caught:
            await provider.complete(ASK)
        await provider.aclose()
    assert caught.value.hint == "the provider says: bad key ***"


async def test_a_proxy_is_not_asked_for_this_machine(
    serving: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with serving(streams(WHOLE)) as server:
        assert (await complete(server.url)).text == TEXT


async def test_without_its_key_a_provider_is_not_asked() -> None:
    vendor = OpenAI(Spec(model="m", base_url="https://api.example.com", api_key_env="KEY"))
    with pytest.raises(ProviderError) as caught:
        await HttpProvider(vendor, environ={}).complete(ASK)
    assert caught.value.code == "provider_auth"


async def test_one_connection_serves_many_requests(serving: Any) -> None:
    async with serving(streams(WHOLE)) as server, asking(server.url) as provider:
        for _ in range(3):
            await provider.complete(ASK)
        assert (server.connections, len(server.exchanges)) == (1, 3)


async def test_callers_do_not_wait_for_each_other(serving: Any) -> None:
    async with (
        serving(stalls(event(content="a")), streams(WHOLE)) as server,
        asking(server.url) as provider,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(provider.complete, ASK)
        await server.asked.wait()
        assert (await provider.complete(ASK)).text == TEXT
        tasks.cancel_scope.cancel()


async def test_cancelling_closes_the_connection(serving: Any) -> None:
    async with serving(stalls(event(content="a"))) as server, asking(server.url) as provider:
        heard = asyncio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(provider.complete, ASK, lambda _: heard.set())
            await heard.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(2):
            await server.left.wait()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(hangs, "openai sent no content for 0.02 s", id="no first byte"),
        pytest.param(
            stalls(event(content="a")), "openai sent no content for 0.02 s", id="silence after text"
        ),
        pytest.param(repeats(b": ping\n\n"), "openai sent no content for 0.02 s", id="comments"),
        pytest.param(
            repeats(b"event: ping\ndata: {}\n\n"), "openai sent no content for 0.02 s", id="pings"
        ),
        pytest.param(
            repeats(event(content="")), "openai sent no content for 0.02 s", id="empty deltas"
        ),
        pytest.param(repeats(b"x"), "openai sent no content for 0.02 s", id="a line without end"),
    ],
)
@pytest.mark.faults
async def test_P3_only_content_keeps_a_reply_alive(
    serving: Any, answer: Answer, message: str
) -> None:
    async with serving(answer) as server:
        error = await failure(server.url, QUICK)
    assert (error.message, error.code, error.retryable) == (message, "provider_stalled", True)


@pytest.mark.parametrize(
    "piece",
    [
        pytest.param(event(content="a"), id="text"),
        pytest.param(event(reasoning_content="hm"), id="thinking"),
    ],
)
@pytest.mark.faults
async def test_P3_content_for_ever_ends_by_the_total_deadline(serving: Any, piece: bytes) -> None:
    async with serving(repeats(piece)) as server:
        error = await failure(server.url, Timeouts(idle_s=5, total_s=0.05))
    assert (error.message, error.code, error.retryable) == (
        "openai was not done after 0.05 s",
        "provider_timeout",
        True,
    )


@pytest.mark.parametrize("piece", ["content", "reasoning_content"])
@pytest.mark.faults
async def test_P3_content_moves_the_deadline(serving: Any, piece: str) -> None:
    async def slow(exchange: Any) -> None:
        await exchange.begin()
        await exchange.chunk(event(content="a"))
        for _ in range(40):
            await exchange.chunk(event(**{piece: "a"}))
            await asyncio.sleep(0.005)
        await exchange.chunk(event("stop") + DONE)
        await exchange.end()

    async with serving(slow) as server:
        completion = await complete(server.url, Timeouts(idle_s=0.15, total_s=5))
    assert (completion.text.strip("a"), completion.stop_reason) == ("", "stop")
    assert completion.first_token_ms is not None
    assert completion.first_token_ms < completion.latency_ms - 150


async def test_a_reply_that_was_over_when_the_connection_was_lost(serving: Any) -> None:
    async with serving(streams(event("stop"), ends=False)) as server:
        completion = await complete(server.url)
    assert (completion.text, completion.stop_reason, completion.incomplete) == ("", "stop", None)


@pytest.mark.parametrize(
    ("pieces", "stop_reason"),
    [
        pytest.param([event(content="a"), event("stop")], "stop", id="after the finish reason"),
        pytest.param([event(content="a"), DONE], None, id="after DONE"),
    ],
)
async def test_a_server_that_never_ends_a_stream_that_is_over(
    serving: Any, pieces: list[bytes], stop_reason: str | None
) -> None:
    async with serving(stalls(*pieces)) as server:
        completion = await complete(server.url, grace_s=0.01)
    assert (completion.text, completion.stop_reason) == ("a", stop_reason)
    assert completion.latency_ms < PATIENT.idle_s * 500


async def test_P3_a_connection_that_is_not_accepted() -> None:
    with ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        # The queue of a socket that nobody accepts from holds one; the next gets no answer.
        for _ in range(2):
            client = sockets.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        error = await failure(url, Timeouts(connect_s=0.02, idle_s=5))
    assert (error.code, error.retryable) == ("provider_unreachable", True)


async def test_nobody_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        error = await failure(url)
    assert (error.message, error.code, error.retryable) == (
        f"no answer from openai at {url}: All connection attempts failed",
        "provider_unreachable",
        True,
    )


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(hangs_up, id="before an answer"),
        pytest.param(streams(ends=False), id="before any event"),
        pytest.param(streams(event(reasoning="hm"), ends=False), id="while it thinks"),
    ],
)
@pytest.mark.faults
async def test_P5_a_connection_lost_before_any_text_can_be_tried_again(
    serving: Any, answer: Answer
) -> None:
    async with serving(answer) as server:
        error = await failure(server.url)
    assert (error.code, error.retryable) == ("provider_unreachable", True)


@pytest.mark.parametrize(
    ("answer", "incomplete"),
    [
        pytest.param(
            streams(event(content="ab"), ends=False), "the connection was lost", id="lost"
        ),
        pytest.param(
            streams(event(content="ab"), event("stop")[:30], ends=False),
            "the connection was lost",
            id="lost inside an event",
        ),
        pytest.param(
            streams(event(content="ab")),
            "the stream ended without a finish reason",
            id="ended without a reason",
        ),
        pytest.param(
            streams(event(content="ab"), event("stop")[:-1]),
            "the stream ended without a finish reason",
            id="ended inside an event",
        ),
    ],
)
@pytest.mark.faults
async def test_P5_a_cut_stream_keeps_its_text_and_has_no_stop_reason(
    serving: Any, answer: Answer, incomplete: str
) -> None:
    async with serving(answer) as server:
        completion = await complete(server.url)
    assert (completion.text, completion.stop_reason, completion.incomplete) == (
        "ab",
        None,
        incomplete,
    )


@pytest.mark.faults
async def test_P6_a_reply_without_end_is_cut(serving: Any) -> None:
    async with serving(repeats(event(content="x" * 65_536))) as server:
        completion = await complete(server.url)
        with anyio.fail_after(2):
            await server.left.wait()
    assert (completion.text, completion.stop_reason, completion.incomplete) == (
        "x" * 4 * 1024 * 1024,
        None,
        "the reply is longer than the limit",
    )


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(
            repeats(b"x" * 500, media_type="application/json"),
            "openai answered more than 2048 bytes at once",
            id="one body",
        ),
        pytest.param(
            streams(b"data: " + b"x" * 3000),
            "openai answered a malformed stream: Server-sent event exceeded the 2048 byte limit.",
            id="one event",
        ),
    ],
)
@pytest.mark.faults
async def test_P6_what_cannot_be_cut_is_refused(serving: Any, answer: Answer, message: str) -> None:
    async with serving(answer) as server:
        error = await failure(server.url, max_reply_bytes=1024)
    assert (error.message, error.code, error.retryable) == (message, "provider_protocol", False)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(
            says(b"<html><title>Sign in</title>", media_type="text/html"),
            "openai answered what is not JSON: '<html><title>Sign in</title>'",
            id="web page",
        ),
        pytest.param(
            streams(event(content="ab"), b"data: {oops\n\n", DONE),
            "openai answered what is not JSON: '{oops'",
            id="an event that is not JSON",
        ),
        pytest.param(
            says(b"no gzip", headers={"Content-Encoding": "gzip"}),
            "openai answered a malformed stream: "
            "Error -3 while decompressing data: incorrect header check",
            id="not compressed as it says",
        ),
    ],
)
@pytest.mark.faults
async def test_P4_malformed_answers(serving: Any, answer: Answer, message: str) -> None:
    async with serving(answer) as server:
        error = await failure(server.url)
    assert (error.message, error.code, error.retryable) == (message, "provider_protocol", False)


@pytest.mark.parametrize(
    ("answer", "code", "retryable", "retry_after_s"),
    [
        pytest.param(says(b"{}", status=401), "provider_auth", False, None, id="401"),
        pytest.param(
            says(b"", status=429, headers={"Retry-After": "7"}),
            "provider_rate_limited",
            True,
            7.0,
            id="P1 429",
        ),
        pytest.param(says(b"oops", status=500), "provider_error", True, None, id="P2 500"),
        pytest.param(says(b"", status=529), "provider_error", True, None, id="P2 529"),
        pytest.param(
            repeats(b"<" * 9_000, status=502, media_type="text/html"),
            "provider_error",
            True,
            None,
            id="P2 502 with a page without end",
        ),
        pytest.param(
            says(b"", status=307, headers={"Location": "http://127.0.0.1:1/"}),
            "provider_protocol",
            False,
            None,
            id="a redirect is not followed",
        ),
        pytest.param(
            streams(event(content="ab"), b'data: {"error": {"code": 503}}\n\n'),
            "provider_error",
            True,
            None,
            id="an error inside the stream",
        ),
        pytest.param(streams(DONE), "provider_empty", True, None, id="nothing at all"),
        pytest.param(says(b'{"choices": []}'), "provider_empty", True, None, id="no choice"),
    ],
)
async def test_errors(
    serving: Any, answer: Answer, code: str, retryable: bool, retry_after_s: float | None
) -> None:
    async with serving(answer) as server:
        error = await failure(server.url)
    assert (error.code, error.retryable, error.retry_after_s) == (code, retryable, retry_after_s)


async def test_what_a_listener_raises_is_its_own(serving: Any) -> None:
    def listen(text: str) -> None:
        raise LookupError(text)

    async with serving(streams(WHOLE)) as server:
        with pytest.raises(LookupError, match=TEXT[:5]):
            await complete(server.url, on_text=listen)


LINE = b'{"message": {"content": "a"}}\n'
END = b'{"done": true, "done_reason": "stop"}\n'


async def of_lines(answer: Answer, timeouts: Timeouts = PATIENT, **options: Any) -> Completion:
    async with serving(answer) as server:
        vendor = Ollama(OllamaSpec(model="m", base_url=server.url, timeouts=timeouts))
        provider = HttpProvider(vendor, **options)
        try:
            return await provider.complete(ASK)
        finally:
            await provider.aclose()


def lines(*pieces: bytes, ends: bool = True) -> Answer:
    """Answer a stream of lines."""

    async def answer(exchange: Any) -> None:
        await exchange.begin(media_type="application/x-ndjson; charset=utf-8")
        for piece in pieces:
            await exchange.chunk(piece)
        if ends:
            await exchange.end()
        else:
            exchange.close()

    return answer


@pytest.mark.parametrize(
    ("answer", "text", "incomplete"),
    [
        pytest.param(lines(LINE, b"\n", LINE, END), "aa", None, id="whole"),
        pytest.param(lines(LINE, END.strip()), "a", None, id="no end of line at the end"),
        pytest.param(lines(LINE), "a", "the stream ended without a finish reason", id="no end"),
        pytest.param(lines(LINE, ends=False), "a", "the connection was lost", id="lost"),
        pytest.param(
            lines(LINE, b'{"mess', ends=False), "a", "the connection was lost", id="lost in a line"
        ),
    ],
)
@pytest.mark.faults
async def test_P5_a_stream_of_lines(answer: Answer, text: str, incomplete: str | None) -> None:
    completion = await of_lines(answer)
    assert (completion.text, completion.incomplete) == (text, incomplete)
    assert completion.stop_reason == (None if incomplete else "stop")


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        pytest.param(lines(b"<html>\n"), "provider_protocol", id="HTML"),
        pytest.param(lines(LINE, b'{"mess'), "provider_protocol", id="half a line"),
        pytest.param(lines(b""), "provider_empty", id="nothing"),
        pytest.param(lines(b'{"error": "no"}\n'), "provider_error", id="an error"),
        pytest.param(
            repeats(b"x" * 1000, media_type="application/x-ndjson"),
            "provider_protocol",
            id="a line without end",
        ),
        pytest.param(
            repeats(b'{"message": {}}\n', media_type="application/x-ndjson"),
            "provider_stalled",
            id="lines without content",
        ),
    ],
)
@pytest.mark.faults
async def test_P4_what_is_no_stream_of_lines(answer: Answer, code: str) -> None:
    with pytest.raises(ProviderError) as caught:
        await of_lines(answer, Timeouts(idle_s=0.5), max_reply_bytes=5_000)
    assert caught.value.code == code


@pytest.mark.faults
async def test_P6_lines_for_ever_are_cut() -> None:
    completion = await of_lines(
        repeats(LINE, media_type="application/x-ndjson"), max_reply_bytes=20
    )
    assert (completion.text, completion.incomplete) == (
        "a" * 20,
        "the reply is longer than the limit",
    )


async def test_cancelling_a_stream_of_lines_closes_the_connection() -> None:
    async def stays(exchange: Any) -> None:
        await exchange.begin(media_type="application/x-ndjson")
        await exchange.chunk(LINE)
        await exchange.until_gone()

    async with serving(stays) as server:
        provider = HttpProvider(Ollama(OllamaSpec(model="m", base_url=server.url)))
        heard = asyncio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(provider.complete, ASK, lambda _: heard.set())
            await heard.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(20):
            await server.left.wait()
        await provider.aclose()
