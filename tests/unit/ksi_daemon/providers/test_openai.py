from __future__ import annotations

import json
from typing import Any

import pytest

from ksi_daemon.errors import ProviderError
from ksi_daemon.providers.model import Message, Request, Usage
from ksi_daemon.providers.openai import OpenAI, Spec
from ksi_daemon.providers.wire import Delta

LOCAL = "http://127.0.0.1:8080/v1"
HELLO = Request(messages=(Message("user", "hello"),))
ALWAYS = {
    "model": "m",
    "messages": [{"role": "user", "content": "hello"}],
    "stream": True,
    "stream_options": {"include_usage": True},
}


def vendor(**fields: Any) -> OpenAI:
    return OpenAI(Spec(**({"model": "m", "base_url": LOCAL} | fields)))


def chunk(finish: Any = None, **delta: Any) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


@pytest.mark.parametrize(
    ("spec", "request_", "added"),
    [
        pytest.param({}, HELLO, {}, id="nothing but the messages"),
        pytest.param(
            {"temperature": 0.5, "max_tokens": 9},
            HELLO,
            {"temperature": 0.5, "max_tokens": 9},
            id="the provider's values",
        ),
        pytest.param(
            {"temperature": 0.5, "max_tokens": 9},
            Request(
                messages=HELLO.messages, model="n", temperature=0, max_tokens=1, stop=("a", "b")
            ),
            {"model": "n", "temperature": 0, "max_tokens": 1, "stop": ["a", "b"]},
            id="the request's win",
        ),
        pytest.param(
            {"base_url": "https://api.openai.com/v1", "max_tokens": 9},
            HELLO,
            {"max_completion_tokens": 9},
            id="OpenAI's own name for the limit",
        ),
        pytest.param(
            {"temperature": 0.5},
            Request(messages=HELLO.messages, extra={"seed": 7, "temperature": 1}),
            {"seed": 7, "temperature": 1},
            id="extra wins over all",
        ),
        pytest.param(
            {},
            Request(
                messages=(
                    Message("system", "s"),
                    Message("assistant", "a", name="x"),
                    Message("tool", "t", call_id="c1"),
                )
            ),
            {
                "messages": [
                    {"role": "system", "content": "s"},
                    {"role": "assistant", "content": "a"},
                    {"role": "user", "content": "t"},
                ]
            },
            id="a tool's result is the user's",
        ),
    ],
)
def test_body(spec: dict[str, Any], request_: Request, added: dict[str, Any]) -> None:
    assert vendor(**spec).body(request_) == ALWAYS | added


@pytest.mark.parametrize(
    ("data", "delta"),
    [
        pytest.param(chunk(role="assistant", content=None), Delta(), id="the role alone"),
        pytest.param(chunk(content=""), Delta(), id="empty delta"),
        pytest.param(chunk(content="hi"), Delta(text="hi"), id="text"),
        pytest.param(chunk(content="\ud83d"), Delta(text="\ud83d"), id="half a character"),
        pytest.param(chunk(refusal="no"), Delta(text="no"), id="a refusal is what the model says"),
        pytest.param(
            chunk(content=[{"type": "thinking", "thinking": []}, {"type": "text", "text": "a"}]),
            Delta(text="a"),
            id="content in parts",
        ),
        pytest.param(chunk(reasoning_content="hm"), Delta(thinking=True), id="reasoning_content"),
        pytest.param(chunk(reasoning="hm", content=""), Delta(thinking=True), id="reasoning"),
        pytest.param(chunk(reasoning_content="", content=None), Delta(), id="empty reasoning"),
        pytest.param(
            chunk(tool_calls=[{"index": 0}]),
            Delta(thinking=True, tool_calls=({"index": 0},)),
            id="a native call is no text",
        ),
        pytest.param(
            json.dumps({"choices": [{"index": 1, "delta": {"content": "b"}}]}),
            Delta(),
            id="another choice",
        ),
        pytest.param(
            json.dumps(
                {
                    "model": "m-1",
                    "choices": [],
                    "usage": {"prompt_tokens": 5, "completion_tokens": 2},
                }
            ),
            Delta(model="m-1", usage=Usage(5, 2)),
            id="usage",
        ),
        pytest.param(
            json.dumps(
                {
                    "usage": {
                        "prompt_tokens": 5,
                        "completion_tokens": 2,
                        "prompt_tokens_details": {"cached_tokens": 4},
                    },
                }
            ),
            Delta(usage=Usage(5, 2, 4)),
            id="usage of a cache",
        ),
        pytest.param(
            json.dumps({"choices": None, "usage": {"prompt_tokens": None}}), Delta(), id="nulls"
        ),
        pytest.param(
            json.dumps({"usage": {"prompt_tokens": 1, "prompt_tokens_details": None}}),
            Delta(usage=Usage(1)),
            id="no details",
        ),
        pytest.param('{"type": "ping"}', Delta(), id="a chunk of something else"),
        pytest.param(" [DONE]", Delta(last=True), id="DONE"),
        pytest.param(
            json.dumps(
                {
                    "model": "m-1",
                    "choices": [
                        {"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
                    ],
                    "usage": {"prompt_tokens": 5, "completion_tokens": 2},
                }
            ),
            Delta(text="hi", finish="stop", stop_reason="stop", model="m-1", usage=Usage(5, 2)),
            id="a whole answer",
        ),
    ],
)
def test_read(data: str, delta: Delta) -> None:
    assert vendor().read(data) == delta


@pytest.mark.parametrize(
    ("word", "stop_reason"),
    [
        ("stop", "stop"),
        ("eos", "stop"),
        ("eos_token", "stop"),
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("model_length", "length"),
        ("tool_calls", "tool_calls"),
        ("function_call", "tool_calls"),
        ("content_filter", "content_filter"),
        ("abort", None),
        ("error", None),
        ("STOP", None),
    ],
)
def test_finish_reasons(word: str, stop_reason: str | None) -> None:
    delta = vendor().read(chunk(word))
    assert (delta.finish, delta.stop_reason) == (word, stop_reason)


@pytest.mark.parametrize("nothing", [None, ""])
def test_no_finish_reason(nothing: str | None) -> None:
    assert vendor().read(chunk(nothing)).finish is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param("<html>", "openai answered what is not JSON: '<html>'", id="not JSON"),
        pytest.param(
            "[1]",
            "openai answered JSON that is no chat completion: Expected `object`, got `array`",
            id="not an object",
        ),
        pytest.param(
            chunk(content=7),
            "openai answered JSON that is no chat completion: Expected `str | array | null`, "
            "got `int` - at `$.choices[0].delta.content`",
            id="wrong type",
        ),
    ],
)
@pytest.mark.faults
def test_P4_what_is_no_chat_completion(data: str, message: str) -> None:
    with pytest.raises(ProviderError) as caught:
        vendor().read(data)
    assert (caught.value.code, caught.value.message) == ("provider_protocol", message)


def test_an_error_in_the_stream_is_raised() -> None:
    with pytest.raises(ProviderError) as caught:
        vendor().read('{"error": {"code": 529, "message": "busy"}, "choices": []}')
    assert (caught.value.status, caught.value.retryable) == (529, True)


@pytest.mark.parametrize("slash", ["", "/"])
def test_url(slash: str) -> None:
    assert vendor(base_url=LOCAL + slash).url(HELLO) == LOCAL + "/chat/completions"


def test_headers() -> None:
    assert [vendor().headers(key) for key in ("k1", None)] == [{"Authorization": "Bearer k1"}, {}]


@pytest.mark.parametrize(
    ("spec", "variable"),
    [
        pytest.param({"base_url": "https://api.openai.com/v1"}, "OPENAI_API_KEY", id="OpenAI"),
        pytest.param({"base_url": "https://api.example.com/v1"}, None, id="nobody else gets it"),
        pytest.param({"api_key_env": "MINE"}, "MINE", id="named"),
    ],
)
def test_which_key_goes_where(spec: dict[str, Any], variable: str | None) -> None:
    assert vendor(**spec).api_key_env == variable
