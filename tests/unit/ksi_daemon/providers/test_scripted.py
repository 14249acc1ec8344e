from __future__ import annotations

import anyio
import msgspec
import pytest

from ksi_daemon.errors import ProviderError
from ksi_daemon.providers.model import Completion, Message, Request, Usage
from ksi_daemon.providers.scripted import Failure, Reply, ScriptedProvider, Spec

ASK = Request(messages=(Message("system", "12345"), Message("user", "123")))


def scripted(*replies: str | Reply, repeat: bool = False) -> ScriptedProvider:
    return ScriptedProvider(Spec(replies=replies, on_empty="repeat" if repeat else "stop"))


async def texts(provider: ScriptedProvider, count: int) -> list[str]:
    return [(await provider.complete(ASK)).text for _ in range(count)]


async def test_a_reply() -> None:
    completion = await scripted("hello").complete(ASK)
    timeless = msgspec.structs.replace(completion, latency_ms=0, first_token_ms=0)
    assert timeless == Completion(
        text="hello", stop_reason="stop", model="scripted", usage=Usage(2, 2), first_token_ms=0
    )


async def test_the_request_names_the_model() -> None:
    request = Request(messages=(), model="other")
    assert (await scripted("a").complete(request)).model == "other"


async def test_after_the_last_reply_all_are_empty() -> None:
    assert await texts(scripted("a", "b"), 4) == ["a", "b", "", ""]


async def test_repeat_begins_anew() -> None:
    assert await texts(scripted("a", "b", repeat=True), 5) == ["a", "b", "a", "b", "a"]


@pytest.mark.parametrize(
    ("repeat", "given"),
    [pytest.param(False, ["c", ""], id="stop"), pytest.param(True, ["c", "a"], id="repeat")],
)
async def test_resume_at(repeat: bool, given: list[str]) -> None:
    provider = scripted("a", "b", "c", repeat=repeat)
    provider.resume_at(2)
    assert await texts(provider, 2) == given


async def test_text_is_handed_on_in_pieces() -> None:
    pieces: list[str] = []
    text = '{"event": "agent:status", "data": {}}'
    completion = await scripted(text).complete(ASK, pieces.append)
    assert ("".join(pieces), len(pieces)) == (completion.text, 3)


async def test_native_calls_come_in_the_message() -> None:
    call = {"id": "c1", "function": {"name": "a", "arguments": "{}"}}
    completion = await ScriptedProvider(
        Spec(replies=(Reply(text="x", tool_calls=(call,)),))
    ).complete(ASK)
    assert completion.message == {"role": "assistant", "content": "x", "tool_calls": [call]}


async def test_a_reply_that_broke_off() -> None:
    completion = await scripted(Reply(text="ab", stop_reason=None)).complete(ASK)
    assert (completion.text, completion.stop_reason, completion.incomplete) == (
        "ab",
        None,
        "the script says that the reply broke off",
    )


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        pytest.param("down", "provider_error", False, id="a message"),
        pytest.param(
            Failure("down", code="provider_stalled", retryable=True),
            "provider_stalled",
            True,
            id="with a code",
        ),
    ],
)
async def test_K7_errors(error: str | Failure, code: str, retryable: bool) -> None:
    provider = scripted(Reply(error=error), "after")
    with pytest.raises(ProviderError) as caught:
        await provider.complete(ASK)
    assert (caught.value.message, caught.value.code, caught.value.retryable) == (
        "down",
        code,
        retryable,
    )
    assert await texts(provider, 1) == ["after"]


async def test_a_slow_reply_keeps_nobody_waiting() -> None:
    provider = scripted(Reply(text="slow", delay_s=0.005), "quick")
    given: list[str] = []

    async def ask() -> None:
        given.append((await provider.complete(ASK)).text)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        tasks.start_soon(ask)
    assert given == ["quick", "slow"]


async def test_a_reply_that_never_comes_can_be_cancelled() -> None:
    with anyio.move_on_after(0.001) as scope:
        await scripted(Reply(delay_s=3600)).complete(ASK)
    assert scope.cancelled_caught
