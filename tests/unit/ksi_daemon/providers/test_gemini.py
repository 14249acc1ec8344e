from __future__ import annotations

import json
from typing import Any

import pytest

from ksi_daemon.errors import ProviderError
from ksi_daemon.providers.gemini import Gemini, Spec
from ksi_daemon.providers.model import Message, Request, Tool
from ksi_daemon.providers.wire import Delta, Transcript

LOCAL = "http://127.0.0.1:8080/v1beta"
HELLO = Request(messages=(Message("user", "hello"),))
ALWAYS = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}
SCHEMA = {"type": "object", "properties": {"location": {"type": "string"}}}
TOOL = Tool("get_weather", "The weather.", SCHEMA)


def vendor(**fields: Any) -> Gemini:
    return Gemini(Spec(**({"model": "m", "base_url": LOCAL} | fields)))


@pytest.mark.parametrize(
    ("spec", "request_", "added"),
    [
        pytest.param({}, HELLO, {}, id="nothing but the messages"),
        pytest.param(
            {"temperature": 0.5, "max_tokens": 9},
            Request(messages=HELLO.messages, temperature=0, stop=("a",)),
            {"generationConfig": {"temperature": 0, "maxOutputTokens": 9, "stopSequences": ["a"]}},
            id="settings",
        ),
        pytest.param(
            {"extra": {"safetySettings": []}},
            Request(messages=HELLO.messages, extra={"labels": {}}),
            {"safetySettings": [], "labels": {}},
            id="extra of both",
        ),
        pytest.param(
            {},
            Request(messages=(Message("system", "Be brief."), *HELLO.messages)),
            {"systemInstruction": {"parts": [{"text": "Be brief."}]}},
            id="the system prompt has a place of its own",
        ),
        pytest.param(
            {},
            Request(messages=HELLO.messages, tools=(TOOL,)),
            {
                "tools": [
                    {
                        "functionDeclarations": [
                            {
                                "name": "get_weather",
                                "description": "The weather.",
                                "parametersJsonSchema": SCHEMA,
                            }
                        ]
                    }
                ]
            },
            id="tools",
        ),
    ],
)
def test_body(spec: dict[str, Any], request_: Request, added: dict[str, Any]) -> None:
    assert vendor(**spec).body(request_) == ALWAYS | added


SIGNED = {"functionCall": {"name": "get_weather", "args": {}}, "thoughtSignature": "c2ln", "new": 1}
PARTS = [{"text": "I look."}, SIGNED, {"functionCall": {"id": "c2", "name": "ping", "args": {}}}]
SAID = Message("assistant", "I look.", native={"role": "model", "parts": PARTS})
RESULTS = (
    Message("tool", "sunny", name="get_weather", call_id="ksiu_1"),
    Message("tool", "no answer", name="ping", call_id="c2", is_error=True),
)


@pytest.mark.conformance
def test_S003_33_what_stands_beside_a_call_goes_back() -> None:
    request = Request(messages=(*HELLO.messages, SAID, *RESULTS), tools=(TOOL,))
    assert vendor().body(request)["contents"][1:] == [
        {"role": "model", "parts": PARTS},
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "name": "get_weather",
                        "response": {"output": "sunny"},
                    }
                },
                {
                    "functionResponse": {
                        "id": "c2",
                        "name": "ping",
                        "response": {"error": "no answer"},
                    }
                },
            ],
        },
    ]


@pytest.mark.conformance
def test_S003_33_without_tools_nothing_of_a_call_is_sent() -> None:
    body = vendor().body(Request(messages=(*HELLO.messages, SAID, *RESULTS)))
    said = "Tool Result (get_weather):\nsunny\n\nTool Result (ping):\nno answer"
    assert body == {
        "contents": [
            *ALWAYS["contents"],
            {"role": "model", "parts": [{"text": "I look."}]},
            {"role": "user", "parts": [{"text": said}]},
        ]
    }


def chunk(*parts: Any, finish: str | None = None) -> str:
    return json.dumps({"candidates": [{"content": {"parts": parts}, "finishReason": finish}]})


@pytest.mark.parametrize(
    ("data", "delta"),
    [
        pytest.param("{}", Delta(), id="nothing"),
        pytest.param('{"candidates": [{"index": 0}]}', Delta(), id="no content"),
        pytest.param(chunk({"text": "a"}), Delta(text="a", tool_calls=({"text": "a"},)), id="text"),
        pytest.param(chunk({"text": "hm", "thought": True}), Delta(thinking=True), id="a thought"),
        pytest.param(
            chunk(SIGNED), Delta(thinking=True, tool_calls=(SIGNED,)), id="a call is no text"
        ),
        pytest.param(
            '{"candidates": [{"index": 1, "content": {"parts": [{"text": "b"}]}}]}',
            Delta(),
            id="another candidate",
        ),
    ],
)
def test_read(data: str, delta: Delta) -> None:
    assert vendor().read(data) == delta


@pytest.mark.parametrize(
    ("word", "stop_reason"),
    [
        ("STOP", "stop"),
        ("FUNCTION_CALL", "tool_calls"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("BLOCKLIST", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("SPII", "content_filter"),
        ("MALFORMED_FUNCTION_CALL", None),
        ("OTHER", None),
        ("stop", None),
    ],
)
def test_finish_reasons(word: str, stop_reason: str | None) -> None:
    delta = vendor().read(chunk(finish=word))
    assert (delta.finish, delta.stop_reason) == (word, stop_reason)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param("<html>", "gemini answered what is not JSON: '<html>'", id="not JSON"),
        pytest.param(
            "[]",
            "gemini answered JSON that is no content: Expected `object`, got `array`",
            id="something else",
        ),
        pytest.param(
            chunk("a"),
            "gemini answered JSON that is no content: Expected `object`, got `str` - at "
            "`$.candidates[0].content.parts[0]`",
            id="wrong type",
        ),
    ],
)
@pytest.mark.faults
def test_P4_what_is_no_content(data: str, message: str) -> None:
    with pytest.raises(ProviderError) as caught:
        vendor().read(data)
    assert (caught.value.code, caught.value.message) == ("provider_protocol", message)


def test_text_is_counted_once() -> None:
    transcript = Transcript("m", 100, calls=vendor().calls())
    for _ in range(30):
        transcript.add(vendor().read(chunk({"text": "x"})))
    assert not transcript.is_full


def test_calls_take_room() -> None:
    transcript = Transcript("m", 1_000, calls=vendor().calls())
    for _ in range(20):
        transcript.add(vendor().read(chunk(SIGNED)))
    assert transcript.is_full


def test_an_error_in_the_stream_is_raised() -> None:
    with pytest.raises(ProviderError) as caught:
        vendor().read('{"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}')
    assert (caught.value.status, caught.value.retryable) == (503, True)


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("m", "/models/m:streamGenerateContent?alt=sse"),
        ("models/m", "/models/m:streamGenerateContent?alt=sse"),
        ("a/../b?key=1", "/models/a%2F..%2Fb%3Fkey%3D1:streamGenerateContent?alt=sse"),
    ],
)
def test_url(model: str, path: str) -> None:
    request = Request(messages=HELLO.messages, model=model)
    assert vendor(base_url=LOCAL + "/").url(request) == LOCAL + path


def test_headers() -> None:
    assert [vendor().headers(key) for key in ("k", None)] == [{"x-goog-api-key": "k"}, {}]


@pytest.mark.parametrize(
    ("spec", "variable"),
    [
        pytest.param(
            {"base_url": "https://generativelanguage.googleapis.com/v1beta"},
            "GEMINI_API_KEY",
            id="own",
        ),
        pytest.param({"base_url": "https://api.example.com/v1"}, None, id="nobody else gets it"),
        pytest.param({"api_key_env": "MINE"}, "MINE", id="named"),
    ],
)
def test_which_key_goes_where(spec: dict[str, Any], variable: str | None) -> None:
    assert vendor(**spec).api_key_env == variable
