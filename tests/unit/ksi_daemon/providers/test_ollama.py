from __future__ import annotations

import json
from typing import Any

import pytest

from ksi_daemon.errors import ProviderError
from ksi_daemon.providers.model import Message, Request, Tool
from ksi_daemon.providers.ollama import Ollama, Spec
from ksi_daemon.providers.wire import Delta

HELLO = Request(messages=(Message("user", "hello"),))
ALWAYS = {
    "model": "m",
    "messages": [{"role": "user", "content": "hello"}],
    "stream": True,
}
SCHEMA = {"type": "object", "properties": {"location": {"type": "string"}}}
TOOL = Tool("get_weather", "The weather.", SCHEMA)


def vendor(**fields: Any) -> Ollama:
    return Ollama(Spec(**({"model": "m"} | fields)))


@pytest.mark.parametrize(
    ("spec", "request_", "added"),
    [
        pytest.param({}, HELLO, {}, id="nothing but the messages"),
        pytest.param(
            {"temperature": 0.5, "max_tokens": 9, "context_tokens": 8192},
            Request(messages=HELLO.messages, temperature=0, stop=("a",)),
            {"options": {"temperature": 0, "num_predict": 9, "num_ctx": 8192, "stop": ["a"]}},
            id="options",
        ),
        pytest.param(
            {"extra": {"keep_alive": -1}},
            Request(messages=HELLO.messages, extra={"format": "json"}),
            {"keep_alive": -1, "format": "json"},
            id="extra of both",
        ),
        pytest.param(
            {},
            Request(messages=HELLO.messages, tools=(TOOL,)),
            {
                "tools": [
                    {
                        "type": "function",
                        "function": {
                            "name": "get_weather",
                            "description": "The weather.",
                            "parameters": SCHEMA,
                        },
                    }
                ]
            },
            id="tools",
        ),
    ],
)
def test_body(spec: dict[str, Any], request_: Request, added: dict[str, Any]) -> None:
    assert vendor(**spec).body(request_) == ALWAYS | added


def test_arguments_go_back_as_an_object() -> None:
    function = {"name": "get_weather", "arguments": '{"location": "SF"}'}
    native = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c1", "function": function}],
    }
    request = Request(
        messages=(
            Message("assistant", "", native=native),
            Message("tool", "sunny", call_id="c1"),
        ),
        tools=(TOOL,),
    )
    called = {"id": "c1", "function": {"name": "get_weather", "arguments": {"location": "SF"}}}
    assert vendor().body(request)["messages"] == [
        {"role": "assistant", "content": "", "tool_calls": [called]},
        {"role": "tool", "tool_name": "get_weather", "content": "sunny", "tool_call_id": "c1"},
    ]


@pytest.mark.parametrize(
    ("free", "message"),
    [
        (True, {"role": "tool", "tool_name": "x", "content": "r"}),
        (False, {"role": "user", "content": "Tool Result (x):\nr"}),
    ],
)
def test_a_result_that_answers_no_native_call(free: bool, message: dict[str, Any]) -> None:
    request = Request(messages=(Message("tool", "r", name="x"),))
    settings = vendor(capabilities={"free_tool_role": free})
    assert settings.body(request)["messages"] == [message]


@pytest.mark.parametrize(
    ("line", "delta"),
    [
        pytest.param({"message": {"content": "a"}, "done": False}, Delta(text="a"), id="text"),
        pytest.param({"message": {"thinking": "hm"}}, Delta(thinking=True), id="a thought"),
        pytest.param(
            {"done": True}, Delta(finish="stop", stop_reason="stop", last=True), id="old end"
        ),
        pytest.param(
            {"done": True, "done_reason": "unload"}, Delta(finish="unload", last=True), id="no end"
        ),
        pytest.param({"message": {"tool_calls": None}}, Delta(), id="null"),
        pytest.param(
            {"message": {"tool_calls": ["x"]}},
            Delta(thinking=True, tool_calls=("x",)),
            id="what is no call is for extraction to say",
        ),
    ],
)
def test_read(line: Any, delta: Delta) -> None:
    assert vendor().read(json.dumps(line)) == delta


@pytest.mark.faults
def test_P4_what_is_no_chat() -> None:
    with pytest.raises(ProviderError) as caught:
        vendor().read('{"message": "hi"}')
    assert (caught.value.code, caught.value.message) == (
        "provider_protocol",
        "ollama answered JSON that is no chat: Expected `object | null`, got `str` - at "
        "`$.message`",
    )


def test_an_error_in_the_stream_is_raised() -> None:
    with pytest.raises(ProviderError) as caught:
        vendor().read('{"error": "the model runner has stopped"}')
    assert (caught.value.code, caught.value.retryable) == ("provider_error", True)


@pytest.mark.parametrize("end", ["", "/", "/api", "/api/"])
def test_url(end: str) -> None:
    base_url = "http://127.0.0.1:11434"
    assert vendor(base_url=base_url + end).url(HELLO) == base_url + "/api/chat"


def test_headers() -> None:
    assert [vendor().headers(key) for key in ("k", None)] == [{"Authorization": "Bearer k"}, {}]
