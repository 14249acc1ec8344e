"""What comes of the blocks of a text: limits, ids, repetitions, policy."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from ksi_daemon.extraction import Diagnostic, Extraction, extract, protocol

EVENT = '{"event":"a:b","data":{"x":1}}'
USE = '{"type":"ksi_tool_use","id":"ksiu_1","name":"a:b","input":{"x":1}}'


def counted() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"ksiu_g{next(numbers)}"


def read(text: str, stop_reason: str | None = None, **overrides: Any) -> Extraction:
    chosen = protocol("ksi", **overrides)
    return extract(text, chosen, stop_reason=stop_reason, new_id=counted())


NOT_READ = "the block is nested deeper than 64 levels"


@pytest.mark.parametrize(
    ("data", "code", "message"),
    [
        pytest.param("NaN", "malformed_block", "NaN is not JSON", id="NaN"),
        pytest.param("-Infinity", "malformed_block", "-Infinity is not JSON", id="Infinity"),
        pytest.param("1e999", "malformed_block", "a number is out of range", id="1e999"),
        pytest.param(
            "9" * 4301, "malformed_block", "an integer has too many digits", id="4301 digits"
        ),
        pytest.param(
            '"\\ud800"', "malformed_block", "a string holds half of a surrogate pair", id="escape"
        ),
        pytest.param(
            '"\ud800"', "malformed_block", "a string holds half of a surrogate pair", id="surrogate"
        ),
        pytest.param("[" * 63 + "]" * 63, "depth_limit", NOT_READ, id="65 levels"),
        pytest.param("[" * 9000 + "]" * 9000, "depth_limit", NOT_READ, id="9000 levels"),
        pytest.param("[" * 9000, "depth_limit", NOT_READ, id="9000 levels, open"),
    ],
)
def test_rejects_what_cannot_be_stored(data: str, code: str, message: str) -> None:
    text = f'{{"event":"a:b","data":{{"v":{data}}}}}'
    result = read(f"{text}\n{USE}")
    assert [(block.code, block.message) for block in result.rejected] == [(code, message)]
    assert [call.dialect for call in result.calls] == ["ksi_tool_use"]


def test_64_levels_are_not_too_deep() -> None:
    value: Any = 1
    for _ in range(62):
        value = [value]
    text = json.dumps({"event": "a:b", "data": {"v": value}})
    assert [call.args for call in read(text).calls] == [{"v": value}]


def test_integers_of_4300_digits_are_read() -> None:
    [call] = read('{"event":"a:b","data":{"v":%s}}' % ("9" * 4300)).calls
    assert call.args == {"v": int("9" * 4300)}


@pytest.mark.parametrize(
    ("text", "overrides", "code"),
    [
        pytest.param(EVENT, {"max_block_chars": 20}, "size_limit", id="long block"),
        pytest.param(
            '{"event":"a:b","data":{"x":[1]}}', {"max_depth": 2}, "depth_limit", id="deep block"
        ),
        pytest.param(EVENT, {"max_reply_chars": 20}, "size_limit", id="long reply"),
        pytest.param(EVENT, {"legacy_event": "reject"}, "legacy_rejected", id="direct form"),
    ],
)
def test_keeps_limits(text: str, overrides: dict[str, Any], code: str) -> None:
    result = read(text, **overrides)
    assert result.calls == ()
    assert [block.code for block in result.rejected] == [code]


def test_calls_beyond_the_limit_are_rejected() -> None:
    result = read(f"{EVENT}\n" * 5, max_calls=2)
    assert [call.start for call in result.calls] == [0, 31]
    assert [block.code for block in result.rejected] == ["size_limit"] * 2
    note = Diagnostic("size_limit", "so many blocks: the rest was not read", 155, 155)
    assert result.diagnostics == (note,)


def test_a_call_behind_many_broken_blocks_is_found() -> None:
    result = read('{"event":"a:b","data":{bad}}\n' * 100 + EVENT)
    assert [call.name for call in result.calls] == ["a:b"]
    assert len(result.rejected) == 64
    assert result.diagnostics[-1].message == "36 more blocks were rejected"


@pytest.mark.parametrize("block", [EVENT, '{"event":"a:b","data":{bad}}'], ids=["calls", "broken"])
def test_a_text_of_nothing_but_blocks_is_not_read_to_its_end(block: str) -> None:
    text = f"{block}\n" * 2_000
    result = read(text)
    note = Diagnostic("size_limit", "so many blocks: the rest was not read", len(text), len(text))
    assert result.diagnostics[-1] == note
    assert len(result.rejected) == 64


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        pytest.param(EVENT, [], id="nothing to say"),
        pytest.param(
            '{"type":"ksi_tool_use","name":"a:b","input":{}}', ["id_generated"], id="no id"
        ),
        pytest.param(
            '{"type":"ksi_tool_use","id":"\\u0000","name":"a:b","input":{}}',
            ["id_generated"],
            id="id that cannot be printed",
        ),
        pytest.param(
            '{"type":"ksi_tool_use","id":"x1","name":"a:b","input":{}}', ["missing_id"], id="prefix"
        ),
        pytest.param('{"event":"a:b","data":{},"more":1}', ["unknown_field"], id="unknown field"),
        pytest.param('{"event":"a:b","data":{},"_k":"abcdefgh"}', [], id="nonce"),
        pytest.param('{"event":"a:b","data":{"y":1,"y":2}}', ["duplicate_keys"], id="repeated key"),
        pytest.param(f"{EVENT}}}", ["extra_text"], id="closing brace"),
        pytest.param(f"{{ {EVENT}}}", [], id="closing brace that closes one"),
        pytest.param(f'{{"x":[{EVENT}]}}', ["nested_call"], id="call within data"),
        pytest.param('{"event":"Birthday party"}', [], id="event that is none"),
        pytest.param(f"> {EVENT}", ["shown"], id="block quote"),
        pytest.param(f"```sh\n{EVENT}", ["shown"], id="fence"),
        pytest.param(f"<think>{EVENT}", ["shown"], id="thought"),
        pytest.param(f"`{EVENT}`", ["shown"], id="inline code"),
        pytest.param(f"{USE} {USE}", ["duplicate_id"], id="same call again"),
        pytest.param(
            f"{USE} {USE.replace('a:b', 'a:c')}", ["duplicate_id"], id="same id, other call"
        ),
        pytest.param(f"{EVENT} {EVENT}", [], id="identical events"),
    ],
)
def test_notes_what_is_worth_a_row(text: str, codes: list[str]) -> None:
    assert [note.code for note in read(text).diagnostics] == codes


def test_the_same_call_under_the_same_id_runs_once() -> None:
    result = read(f"{USE} {USE} {USE}!")
    assert (len(result.calls), result.residual) == (1, "  !")


def test_arguments_that_only_python_thinks_equal_are_two_calls() -> None:
    use = '{{"type":"ksi_tool_use","id":"ksiu_1","name":"a:b","input":{{"x":{}}}}}'
    result = read(" ".join(map(use.format, ("1", "true", "1.0"))))
    assert [call.args for call in result.calls] == [{"x": 1}, {"x": True}, {"x": 1.0}]
    assert len({call.id for call in result.calls}) == 3


def test_ids_stay_apart() -> None:
    result = read(f"{USE} {USE} {USE.replace('a:b', 'a:c')}")
    assert [(call.id, call.id_generated) for call in result.calls] == [
        ("ksiu_1", False),
        ("ksiu_g1", True),
    ]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        pytest.param(f"{EVENT} {EVENT}", 1, id="generated ids"),
        pytest.param(f"{USE} {USE}", 1, id="same id"),
        pytest.param(f"{USE} {USE.replace('ksiu_1', 'ksiu_2')}", 2, id="ids of their own"),
        pytest.param(f"{EVENT} {EVENT.replace('1', '2')}", 2, id="other data"),
    ],
)
def test_drops_repeated_calls_if_told(text: str, kept: int) -> None:
    assert len(read(text, dedupe=True).calls) == kept


@pytest.mark.parametrize(
    ("policy", "data", "calls", "rejected", "notes"),
    [
        ("allow", {"c": "x\ny"}, 1, [], []),
        ("warn", {"c": "x"}, 1, [], []),
        ("warn", {"c": "x\ny"}, 1, [], ["legacy_complex"]),
        ("reject_complex", {"c": "x"}, 1, [], []),
        ("reject_complex", {"c": "x\ny"}, 0, ["legacy_complex"], []),
        ("reject", {"c": "x"}, 0, ["legacy_rejected"], []),
    ],
)
def test_policy_for_the_direct_form(
    policy: str, data: dict[str, Any], calls: int, rejected: list[str], notes: list[str]
) -> None:
    result = read(json.dumps({"event": "a:b", "data": data}), legacy_event=policy)
    assert len(result.calls) == calls
    assert [block.code for block in result.rejected] == rejected
    assert [note.code for note in result.diagnostics] == notes


@pytest.mark.parametrize(
    ("block", "nonce"),
    [
        pytest.param(USE.replace("ksiu_1", "ksiu_abcdefgh_1"), "abcdefgh", id="in the id"),
        pytest.param(USE.replace("ksiu_1", "ksiu_1234567890_abc"), None, id="time in the id"),
        pytest.param('{"event":"a:b","data":{},"_k":"abcdefgh"}', "abcdefgh", id="as a key"),
        pytest.param(EVENT, None, id="none"),
    ],
)
def test_reads_the_nonce(block: str, nonce: str | None) -> None:
    assert [call.nonce for call in read(block).calls] == [nonce]
