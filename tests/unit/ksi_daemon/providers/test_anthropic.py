from __future__ import annotations

import json
from typing import Any

import pytest

from ksi_daemon.errors import ProviderError
from ksi_daemon.providers.anthropic import Anthropic, Spec
from ksi_daemon.providers.model import Message, Request, Tool, Usage
from ksi_daemon.providers.wire import Delta, Transcript

LOCAL = "http://127.0.0.1:8080/v1"
HELLO = Request(messages=(Message("user", "hello"),))
ALWAYS = {
    "model": "m",
    "max_tokens": 8192,
    "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
    "stream": True,
}
SCHEMA = {"type": "object", "properties": {"location": {"type": "string"}}}
TOOL = Tool("get_weather", "The weather.", SCHEMA)
NATIVE = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": '{"location": "SF"}'},
    ],
}


def vendor(**fields: Any) -> Anthropic:
    return Anthropic(Spec(**({"model": "m", "base_url": LOCAL, "cache": False} | fields)))


def talk(*messages: Message, tools: tuple[Tool, ...] = (TOOL,)) -> Request:
    return Request(messages=messages, tools=tools)


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


@pytest.mark.parametrize(
    ("spec", "request_", "added"),
    [
        pytest.param({}, HELLO, {}, id="nothing but the messages"),
        pytest.param(
            {"temperature": 0.5, "max_tokens": 9},
            Request(
                messages=HELLO.messages, model="n", temperature=0, max_tokens=1, stop=("a", "b")
            ),
            {"model": "n", "temperature": 0, "max_tokens": 1, "stop_sequences": ["a", "b"]},
            id="the request's values win",
        ),
        pytest.param(
            {"extra": {"thinking": {"type": "disabled"}, "top_k": 1}},
            Request(messages=HELLO.messages, extra={"top_k": 2}),
            {"thinking": {"type": "disabled"}, "top_k": 2},
            id="extra of both",
        ),
        pytest.param(
            {},
            talk(Message("system", "Be brief."), *HELLO.messages, tools=()),
            {"system": [text("Be brief.")]},
            id="the system prompt has a place of its own",
        ),
        pytest.param(
            {},
            Request(messages=HELLO.messages, tools=(TOOL,)),
            {
                "tools": [
                    {
                        "name": "get_weather",
                        "description": "The weather.",
                        "input_schema": SCHEMA,
                    }
                ]
            },
            id="tools",
        ),
    ],
)
def test_body(spec: dict[str, Any], request_: Request, added: dict[str, Any]) -> None:
    assert vendor(**spec).body(request_) == ALWAYS | added


@pytest.mark.conformance
def test_S004_40_results_go_back_in_one_user_message() -> None:
    second = {"type": "tool_use", "id": "toolu_2", "name": "get_weather", "input": {}}
    native = {**NATIVE, "content": [*NATIVE["content"], second]}
    body = vendor().body(
        talk(
            Message("user", "hello"),
            Message("assistant", "I look.", native=native),
            Message("tool", "no such place", call_id="toolu_2", is_error=True),
            Message("tool", "sunny", call_id="toolu_1"),
            Message("user", "Well?"),
        )
    )
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                NATIVE["content"][0],
                NATIVE["content"][1],
                {
                    "type": "tool_use",
                    "id": "toolu_1",
                    "name": "get_weather",
                    "input": {"location": "SF"},
                },
                second,
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_2",
                    "content": "no such place",
                    "is_error": True,
                },
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"},
                text("Well?"),
            ],
        },
    ]


def test_calls_of_another_vendor_become_its_own() -> None:
    function = {"name": "get_weather", "arguments": '{"location": "SF"}'}
    entry = {"id": "functions.get_weather:0", "type": "function", "function": function}
    native = {"role": "assistant", "content": "I look.", "tool_calls": [entry]}
    body = vendor().body(
        talk(
            Message("assistant", "I look.", native=native),
            Message("tool", "sunny", call_id="functions.get_weather:0"),
        )
    )
    id = "functions_get_weather_0"
    called = {"type": "tool_use", "id": id, "name": "get_weather", "input": {"location": "SF"}}
    assert body["messages"] == [
        {"role": "assistant", "content": [text("I look."), called]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": id, "content": "sunny"}],
        },
    ]


def test_what_stays_the_same_is_marked_for_the_cache() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    body = vendor(cache=True).body(
        talk(
            Message("system", "s"), Message("user", "a"), Message("assistant", "b"), *HELLO.messages
        )
    )
    assert body["system"] == [text("s") | mark]
    assert [message["content"] for message in body["messages"]] == [
        [text("a")],
        [text("b")],
        [text("hello") | mark],
    ]


def event(type: str, **fields: Any) -> str:
    return json.dumps({"type": type, **fields})


def change(**delta: Any) -> str:
    return event("content_block_delta", index=0, delta=delta)


def piece(**delta: Any) -> tuple[Any, ...]:
    return ({"index": 0, "delta": delta},)


@pytest.mark.parametrize(
    ("data", "delta"),
    [
        pytest.param(event("ping"), Delta(), id="ping"),
        pytest.param(event("content_block_stop", index=0), Delta(), id="end of a block"),
        pytest.param(event("something_new", index=0), Delta(), id="what is not known"),
        pytest.param(event("message_stop"), Delta(last=True), id="the end"),
        pytest.param(
            change(type="text_delta", text="a"),
            Delta(text="a", tool_calls=piece(type="text_delta", text="a")),
            id="text",
        ),
        pytest.param(
            change(type="text_delta", text=""),
            Delta(tool_calls=piece(type="text_delta", text="")),
            id="no text is no sign of life",
        ),
        pytest.param(
            change(type="thinking_delta", thinking="hm"),
            Delta(thinking=True, tool_calls=piece(type="thinking_delta", thinking="hm")),
            id="a thought is no text",
        ),
        pytest.param(
            event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 3}),
            Delta(finish="end_turn", stop_reason="stop", usage=Usage(0, 3)),
            id="why it ended",
        ),
        pytest.param(
            event(
                "message_start",
                message={
                    "model": "m-1",
                    "usage": {
                        "input_tokens": 1,
                        "cache_creation_input_tokens": 2,
                        "cache_read_input_tokens": 4,
                        "output_tokens": 1,
                    },
                },
            ),
            Delta(model="m-1", usage=Usage(7, 1, 4)),
            id="what was in the cache is told beside the rest",
        ),
    ],
)
def test_read(data: str, delta: Delta) -> None:
    assert vendor().read(data) == delta


@pytest.mark.parametrize(
    ("word", "stop_reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("pause_turn", None),
        ("news", None),
    ],
)
def test_finish_reasons(word: str, stop_reason: str | None) -> None:
    delta = vendor().read(event("message_delta", delta={"stop_reason": word}))
    assert (delta.finish, delta.stop_reason) == (word, stop_reason)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param("<html>", "anthropic answered what is not JSON: '<html>'", id="not JSON"),
        pytest.param(
            "{}",
            "anthropic answered JSON that is no message: Object missing required field `type`",
            id="something else",
        ),
        pytest.param(
            event("message_start", message={"usage": {"input_tokens": "many"}}),
            "anthropic answered JSON that is no message: Expected `int | null`, got `str` - at "
            "`$.message.usage.input_tokens`",
            id="wrong type",
        ),
    ],
)
@pytest.mark.faults
def test_P4_what_is_no_message(data: str, message: str) -> None:
    with pytest.raises(ProviderError) as caught:
        vendor().read(data)
    assert (caught.value.code, caught.value.message) == ("provider_protocol", message)


@pytest.mark.parametrize(
    ("word", "code", "retryable"),
    [
        ("overloaded_error", "provider_error", True),
        ("rate_limit_error", "provider_rate_limited", True),
        ("invalid_request_error", "provider_error", False),
        ("billing_error", "provider_rate_limited", False),
    ],
)
def test_an_error_in_the_stream_is_raised(word: str, code: str, retryable: bool) -> None:
    with pytest.raises(ProviderError) as caught:
        vendor().read(event("error", error={"type": word, "message": "no"}))
    assert (caught.value.code, caught.value.retryable) == (code, retryable)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param({"code": 500, "message": "no", "type": "server_error"}, id="bare"),
        pytest.param({"error": {"code": 500, "message": "no"}}, id="without a type"),
    ],
)
def test_an_error_in_the_form_of_others_is_raised(said: Any) -> None:
    with pytest.raises(ProviderError) as caught:
        vendor().read(json.dumps(said))
    assert (caught.value.status, caught.value.retryable) == (500, True)


def test_url_and_headers() -> None:
    assert vendor(base_url=LOCAL + "/").url(HELLO) == LOCAL + "/messages"
    version = {"anthropic-version": "2023-06-01"}
    assert [vendor().headers(key) for key in ("k", None)] == [version | {"x-api-key": "k"}, version]


@pytest.mark.parametrize(
    ("spec", "variable"),
    [
        pytest.param({"base_url": "https://api.anthropic.com/v1"}, "ANTHROPIC_API_KEY", id="own"),
        pytest.param({"base_url": "https://api.example.com/v1"}, None, id="nobody else gets it"),
        pytest.param({"api_key_env": "MINE"}, "MINE", id="named"),
    ],
)
def test_which_key_goes_where(spec: dict[str, Any], variable: str | None) -> None:
    assert vendor(**spec).api_key_env == variable


def test_capabilities_can_be_set() -> None:
    assert vendor().capabilities.native_tool_calls
    assert not vendor(capabilities={"native_tool_calls": False}).capabilities.native_tool_calls


def test_what_the_vendor_runs_itself_goes_back_as_an_object() -> None:
    blocks = vendor().calls()
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    call = {"type": "tool_use", "id": "toolu_1", "name": "ping", "input": {}}
    for index, block in enumerate((search, call)):
        blocks.add({"index": index, "content_block": block})
        delta = {"type": "input_json_delta", "partial_json": '{"q": 1}'}
        blocks.add({"index": index, "delta": delta})
    message = blocks.message("")
    assert message is not None
    assert [block["input"] for block in message["content"]] == [{"q": 1}, '{"q": 1}']


def test_a_piece_of_a_block_that_never_began_is_left_out() -> None:
    blocks = vendor().calls()
    blocks.add({"index": 3, "delta": {"type": "input_json_delta", "partial_json": "{"}})
    blocks.add({"index": None, "delta": {"type": "news"}})
    assert blocks.message("") is None


def test_text_is_counted_once() -> None:
    transcript = Transcript("m", 100, calls=vendor().calls())
    begun = event("content_block_start", index=0, content_block=text(""))
    transcript.add(vendor().read(begun))
    transcript.add(vendor().read(change(type="text_delta", text="x" * 30)))
    assert not transcript.is_full


def test_text_that_is_none_does_not_go_back() -> None:
    blocks = vendor().calls()
    call = {"type": "tool_use", "id": "toolu_1", "name": "ping", "input": {}}
    for block in (text(" \n"), call):
        blocks.add({"index": None, "content_block": block})
    assert blocks.message("") == {"role": "assistant", "content": [call]}


def test_thinking_takes_room() -> None:
    transcript = Transcript("m", 1_000, calls=vendor().calls())
    block = {"type": "thinking", "thinking": ""}
    transcript.add(vendor().read(event("content_block_start", index=0, content_block=block)))
    for _ in range(20):
        transcript.add(vendor().read(change(type="thinking_delta", thinking="x" * 100)))
    assert transcript.is_full
