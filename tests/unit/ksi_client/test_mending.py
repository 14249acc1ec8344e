from __future__ import annotations

import pytest

from ksi_client.mending import Mended, read_call, read_mended, to_edit
from ksi_daemon.errors import KsiError

ATTEMPT = {
    "seq": 17,
    "code": "malformed_block",
    "error": {"message": "expected\n':'"},
    "text": '{"event": "a:b", "data": {"k" 1}}',
}


def test_an_editor_shows_what_was_wrong_and_the_text() -> None:
    assert to_edit(ATTEMPT).splitlines() == [
        "attempt #17, malformed_block: expected ':'",
        "Mend the call below this line; leave nothing to give up.",
        "-" * 72,
        ATTEMPT["text"],
    ]


@pytest.mark.parametrize(
    ("text", "dialect", "mended"),
    [
        pytest.param(
            '{"event": "a:b", "data": {"k": 1}}', "event", Mended("a:b", {"k": 1}), id="event"
        ),
        pytest.param(
            '{"tool": "read", "arguments": {"path": "a"}}',
            "prompt_json",
            Mended("read", {"path": "a"}),
            id="another way to write it",
        ),
        pytest.param(
            '<tool_call>{"name": "read", "arguments": {}}</tool_call>',
            "event",
            Mended("read", {}),
            id="in any way",
        ),
        pytest.param(
            '{"event": "a:b", "data": {"k": 1,}}', "event", Mended("a:b", {"k": 1}), id="a slip"
        ),
        pytest.param('{"event": "a:b", "data": {}}', "native", Mended("a:b", {}), id="native"),
        pytest.param(" \n", "event", None, id="nothing is left"),
    ],
)
def test_what_was_edited_is_read_like_a_reply(
    text: str, dialect: str, mended: Mended | None
) -> None:
    whole = to_edit({**ATTEMPT, "text": text})
    assert read_mended(whole, dialect) == mended
    assert read_mended(text, dialect) == mended


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            '{"event": "a:b", "data": {"k" 1}}',
            "what was edited holds no calls, and one is wanted: malformed_block: expected ':'",
            id="still wrong",
        ),
        pytest.param("never mind", "holds no calls, and one is wanted", id="prose"),
        pytest.param(
            '{"event": "a:b", "data": {}} {"event": "a:c", "data": {}}',
            "holds 2 calls, and one is wanted",
            id="two",
        ),
    ],
)
def test_what_was_edited_must_be_one_call(text: str, message: str) -> None:
    with pytest.raises(KsiError) as caught:
        read_mended(text, "event")
    assert message in caught.value.message
    assert caught.value.code == "not_mended"


def test_a_call_is_said_as_json() -> None:
    assert read_call('{"event": "a:b", "data": {"k": 1}}') == Mended("a:b", {"k": 1})
    assert read_call('{"event": "a:b"}') == Mended("a:b", {})


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"data": {}}', '{"event": "a:b", "x": 1}', "\ud800"]
)
def test_what_is_no_call(text: str) -> None:
    with pytest.raises(KsiError, match="that is no call") as caught:
        read_call(text)
    assert caught.value.hint is not None
