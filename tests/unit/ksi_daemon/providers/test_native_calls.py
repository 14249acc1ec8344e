"""Native calls that come in pieces."""

from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.extraction import read_native
from ksi_daemon.providers.native_calls import NativeCalls
from ksi_daemon.providers.wire import Delta, Transcript

FIRST = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "a", "arguments": ""}}


def more(arguments: Any, index: int = 0) -> dict[str, Any]:
    return {"index": index, "function": {"arguments": arguments}}


def read(*pieces: Any) -> list[tuple[str, Any]]:
    calls = NativeCalls()
    for piece in pieces:
        calls.add(piece)
    found = read_native(calls.message("x"))
    return [(call.id, call.args) for call in found.calls] + [
        (block.id, block.code) for block in found.rejected
    ]


@pytest.mark.parametrize(
    ("pieces", "outcomes"),
    [
        pytest.param([FIRST], [("call_1", {})], id="one piece"),
        pytest.param([FIRST, more('{"x"'), more(": 1}")], [("call_1", {"x": 1})], id="three"),
        pytest.param([FIRST, more('{"x"')], [("call_1", "args_json")], id="cut off"),
        pytest.param(
            [FIRST, {**FIRST, "index": 1, "id": "c2"}, more('{"x": 1}'), more('{"y": 2}', 1)],
            [("call_1", {"x": 1}), ("c2", {"y": 2})],
            id="two calls in turn",
        ),
        pytest.param(
            [{"id": "o1", "function": {"name": "a", "arguments": {"x": 1}}}],
            [("o1", {"x": 1})],
            id="whole, with an object",
        ),
        pytest.param(
            [FIRST, more('{"x": "\ud83d'), more('\ude00 \ud83d"}')],
            [("call_1", {"x": "\U0001f600 \ufffd"})],
            id="halves of characters",
        ),
        pytest.param([FIRST, more(5)], [("call_1", {})], id="a number as a piece"),
    ],
)
def test_pieces_make_calls(pieces: list[Any], outcomes: list[tuple[str, Any]]) -> None:
    assert read(*pieces) == outcomes


@pytest.mark.parametrize("piece", [None, 5, "x", [], {}, {"index": "0"}, {"function": 5}])
def test_what_is_no_piece_is_rejected_in_its_place(piece: Any) -> None:
    found = read(piece, FIRST)
    assert sorted(each for _, each in found if each != {}) == ["missing_name"]


def test_without_pieces_there_is_no_message() -> None:
    assert NativeCalls().message("x") is None


def test_a_completion_has_the_message() -> None:
    transcript = Transcript("m")
    transcript.add(Delta(text="I look.", tool_calls=(FIRST,)))
    transcript.add(Delta(tool_calls=(more('{"x": 1}'),), finish="tool_calls", stop_reason="stop"))
    completion = transcript.completion(latency_ms=1.0, first_token_ms=None)
    assert completion.message is not None
    assert completion.message["content"] == completion.text == "I look."
    assert [call.args for call in read_native(completion.message).calls] == [{"x": 1}]


def test_calls_count_towards_the_limit() -> None:
    transcript = Transcript("m", max_bytes=300)
    for _ in range(9):
        transcript.add(Delta(tool_calls=(FIRST,)))
    assert transcript.is_full
