from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ksi_client.golden import golden_line, read_golden
from ksi_client.replaying import Read, Reply, found_in, reads_of
from ksi_daemon.errors import KsiError
from ksi_daemon.extraction import protocol

TEXT = 'So: {"event": "a:b", "data": {"k": 1,}} and {"event": "a:c", "data": {"k" 1}}'
TAGS = "<function=read><parameter=n>5</parameter></function>"
SCHEMAS = {"read": {"type": "object", "properties": {"n": {"type": "string"}}}}
MESSAGE = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "c1", "function": {"name": "a_b", "arguments": "{}"}}],
}


def reply(text: str = TEXT, preset: str = "ksi", **fields: Any) -> Reply:
    settings = fields.pop("settings", {})
    return Reply(id="1", text=text, protocol=protocol(preset, **settings), **fields)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(reply(), id="calls and rejected blocks"),
        pytest.param(reply("Hello."), id="nothing in it"),
        pytest.param(reply(preset="any", stop_reason="length"), id="another preset, cut off"),
        pytest.param(reply(settings={"repair": "off", "mode": "strict"}), id="other settings"),
        pytest.param(reply(TAGS, preset="any", tools=SCHEMAS), id="tools that decide"),
        pytest.param(reply("", message=MESSAGE, native=True, tools={"a:b": {}}), id="native calls"),
    ],
)
def test_what_is_written_is_read_and_found_again(given: Reply) -> None:
    reads = reads_of(found_in(given))
    [again] = read_golden([golden_line(given, reads)], "set")
    assert reads_of(found_in(again)) == reads
    assert {read.start: read for read in again.reads} == {read.start: read for read in reads}
    assert again.protocol == given.protocol


def test_schemas_are_written_where_they_decide() -> None:
    decides = reply(TAGS, preset="any", tools=SCHEMAS)
    plain = reply(tools=SCHEMAS)
    lines = [golden_line(each, reads_of(found_in(each))) for each in (decides, plain)]
    assert [b'"tools"' in line for line in lines] == [True, False]


def test_a_line_may_be_written_by_hand() -> None:
    line = {"id": 7, "text": "x", "mode": "strict", "calls": [
        {"name": "a:b", "args": {}, "dialect": "event", "start": 0, "end": 1}]}  # fmt: skip
    [found] = read_golden([msgspec.json.encode(line), b"\n"], "set")
    assert (found.id, found.protocol) == ("line 1", protocol("ksi", mode="strict"))
    assert found.reads == (Read("event", 0, 1, "a:b", {}),)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param(b"{", "set, line 2: Input data was truncated", id="cut off"),
        pytest.param(b"\xff", "set, line 2: ", id="no text"),
        pytest.param(b'{"id": 1}', "missing required field `text`", id="no reply"),
        pytest.param(
            b'{"id": 1, "text": "", "calls": [], "preset": "odd"}', "no preset 'odd'", id="preset"
        ),
        pytest.param(
            b'{"id": 1, "text": "", "calls": [], "settings": {"odd": 1}}', "odd", id="setting"
        ),
    ],
)
def test_a_line_that_is_none(line: bytes, message: str) -> None:
    good = golden_line(reply(), ())
    with pytest.raises(KsiError) as caught:
        list(read_golden([good, line], "set"))
    assert message in caught.value.message
    assert caught.value.code == "bad_line"
