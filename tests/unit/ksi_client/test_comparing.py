from __future__ import annotations

import msgspec
import pytest

from ksi_client.comparing import Reply, compared, read_replies
from ksi_daemon.errors import KsiError
from ksi_daemon.extraction import PRESETS

EVENT = '{"event": "a:b", "data": {"n": 1}}'
TOOL = '{"tool": "a:b", "arguments": {"n": 1}}'
ACTION = '{"action": {"tool": "a:b", "args": {"n": 1}}}'
NATIVE = {
    "id": "c1",
    "type": "function",
    "function": {"name": "a_b", "arguments": '{"n": 1}'},
}


@pytest.mark.parametrize(
    ("text", "name", "replies"),
    [
        pytest.param('["one", {"text": "two"}]', "r", ["one", "two"], id="an array"),
        pytest.param(
            '{"type": "scripted", "replies": ["one"], "on_empty": "stop"}',
            "r",
            ["one"],
            id="script",
        ),
        pytest.param('{"text": "one"}\n\n{"text": "two"}\n', "r.jsonl", ["one", "two"], id="lines"),
        pytest.param("Just so.\n", "r", ["Just so.\n"], id="prose"),
        pytest.param(ACTION, "r.json", [ACTION], id="a reply that is JSON"),
        pytest.param(
            '[{"tool": 1}, 2]', "r", ['[{"tool": 1}, 2]'], id="an array of something else"
        ),
        pytest.param("[" * 100_000, "r", ["[" * 100_000], id="deep"),
    ],
)
def test_read_replies(text: str, name: str, replies: list[str]) -> None:
    assert [reply.text for reply in read_replies(text.encode(), name)] == replies


@pytest.mark.parametrize(
    ("data", "name", "code", "message"),
    [
        pytest.param(
            b"a\xff", "r", "not_utf8", "r is not UTF-8: byte 0xff at offset 1", id="bytes"
        ),
        pytest.param(b'{"text": "a"}\n{', "r.jsonl", "bad_line", "r.jsonl, line 2: ", id="line"),
    ],
)
def test_what_cannot_be_read(data: bytes, name: str, code: str, message: str) -> None:
    with pytest.raises(KsiError) as raised:
        read_replies(data, name)
    assert raised.value.code == code
    assert raised.value.message.startswith(message)


@pytest.mark.parametrize(
    ("reply", "readers"),
    [
        pytest.param(Reply(EVENT), {"ksi", "any"}, id="event"),
        pytest.param(Reply(TOOL), {"prompt_tools", "any"}, id="tool"),
        pytest.param(Reply(ACTION), {"json_action", "any"}, id="action"),
        pytest.param(Reply(tool_calls=(NATIVE,)), set(PRESETS), id="native"),
    ],
)
def test_who_reads_it(reply: Reply, readers: set[str]) -> None:
    readings = compared([reply], PRESETS)
    assert {each.preset for each in readings if each.calls == 1} == readers


def test_figures() -> None:
    replies = [
        Reply('Well: {"event": "a:b", "data": {"n": 1,}}'),
        Reply('{"event": "a:b", "data": {x}}'),
        Reply(EVENT[:-4], stop_reason="length"),
        Reply(""),
    ]
    [reading] = compared(replies, ["ksi"])
    told = reading.as_json()
    assert len(told.pop("replies")) == 4
    assert told == {
        "preset": "ksi",
        "calls": 1,
        "repaired": 1,
        "rejected": 2,
        "finals": 0,
        "residual_chars": 5,
        "repairs": {"trailing_comma": 1},
        "codes": {"malformed_block": 1, "unterminated_block": 1},
    }
    assert msgspec.json.encode(told)


def test_a_final_answer() -> None:
    [reading] = compared([Reply('{"final": {"content": null}}')], ["json_action"])
    assert (reading.finals, reading.rejected) == (1, 0)
