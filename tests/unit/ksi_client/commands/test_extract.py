from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

from ksi_client.text import Paint
from ksi_client.views.explained import explained
from ksi_daemon.extraction import extract, protocol, to_json
from ksi_daemon.extraction.explanation import explain, findings_json

# With ids of their own: a call without one is given a new one each time.
CALL = '{"event": "agent:status", "id": "ksiu_1", "data": {"agent_id": "ada", "status": "ready"}}'
SLIP = '{"event": "agent:status", "id": "ksiu_2", "data": {"status": "ready",}}'
TEXT = f"First.\n{CALL}\nThen {SLIP}\n"


@pytest.mark.parametrize(
    ("words", "mode"),
    [
        pytest.param([], {}, id="by default"),
        pytest.param(["--mode", "strict"], {"mode": "strict"}, id="strict"),
        pytest.param(["-"], {}, id="stdin by name"),
    ],
)
def test_json_is_what_the_extractor_says(
    ksi: Callable[..., Result], words: list[str], mode: dict[str, str]
) -> None:
    result = ksi("extract", *words, stdin=TEXT, text=False)
    assert msgspec.json.decode(result.stdout) == to_json(extract(TEXT, protocol("ksi", **mode)))


def test_a_file(ksi: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "reply.txt").write_text(TEXT)
    result = ksi("extract", str(tmp_path / "reply.txt"), text=False)
    assert msgspec.json.decode(result.stdout) == to_json(extract(TEXT, protocol("ksi")))


def test_jsonl_prints_a_line_for_each_line(ksi: Callable[..., Result]) -> None:
    lines = [
        {"id": 1, "text": TEXT},
        {"id": "b", "text": TEXT, "mode": "strict"},
        {"id": None, "text": "prose", "preset": "ksi"},
    ]
    stdin = "\n\n".join(msgspec.json.encode(line).decode() for line in lines)
    printed = ksi("extract", "--jsonl", stdin=stdin).stdout.splitlines()
    assert [msgspec.json.decode(line) for line in printed] == [
        {"id": 1, **to_json(extract(TEXT, protocol("ksi")))},
        {"id": "b", **to_json(extract(TEXT, protocol("ksi", mode="strict")))},
        {"id": None, **to_json(extract("prose", protocol("ksi")))},
    ]


@pytest.mark.parametrize(
    ("line", "id", "message"),
    [
        pytest.param('{"id": 2}', 2, "Object missing required field `text`", id="no text"),
        pytest.param("{", None, "Input data was truncated", id="no JSON"),
        pytest.param("[1]", None, "Expected `object`, got `array`", id="no object"),
        pytest.param('{"id": 2, "text": "", "preset": "kis"}', 2, "no preset 'kis'", id="preset"),
        pytest.param(
            '{"id": "x", "text": "", "mode": "lax"}', "x", "Invalid enum value 'lax'", id="mode"
        ),
    ],
)
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["jsonl", "json too"])
def test_a_line_that_is_none_is_named_and_the_others_are_read(
    ksi: Callable[..., Result], line: str, id: object, message: str, form: list[str]
) -> None:
    stdin = f'{{"id": 1, "text": ""}}\n\n{line}\n{{"id": 3, "text": ""}}\n'
    result = ksi("extract", "--jsonl", *form, stdin=stdin)
    assert result.exit_code == 1
    assert f"error bad_line: stdin, line 3: {message}" in result.stderr
    first, bad, last = (msgspec.json.decode(each) for each in result.stdout.splitlines())
    assert (first["id"], last["id"]) == (1, 3)
    assert (bad["id"], bad["line"], bad["error"]["code"]) == (id, 3, "bad_line")
    assert bad["error"]["message"].startswith(message)


def test_a_line_that_is_not_utf8(tmp_path: Path, ksi: Callable[..., Result]) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b'{"id": 1, "text": "\xff"}\n{"id": 2, "text": ""}')
    result = ksi("extract", "--jsonl", str(path))
    ids = [msgspec.json.decode(line)["id"] for line in result.stdout.splitlines()]
    assert (result.exit_code, ids) == (1, [None, 2])
    assert "line 1: 'utf-8' codec" in result.stderr


def test_several_files_and_those_that_cannot_be_read(
    tmp_path: Path, ksi: Callable[..., Result]
) -> None:
    good, odd, absent = (str(tmp_path / name) for name in ("good", "odd", "absent"))
    Path(good).write_text(CALL)
    Path(odd).write_bytes(b"ab\xff")
    result = ksi("extract", odd, good, absent, text=False)
    found = msgspec.json.decode(result.stdout)
    assert (result.exit_code, found["file"], len(found["calls"])) == (1, good, 1)
    assert result.stderr.splitlines() == [
        f"error not_utf8: {odd} is not UTF-8: byte 0xff at offset 2",
        f"error unreadable_file: {absent} cannot be read: No such file or directory",
    ]
    titles = [line for line in ksi("extract", good, good).stdout.splitlines() if "==>" in line]
    assert titles == [f"==> {good}"] * 2


HERMES = '<tool_call>{"name": "agent:status", "arguments": {"status": "ready"}}</tool_call>'


@pytest.mark.parametrize(
    ("text", "preset", "dialects"),
    [
        pytest.param(f"So {CALL}", "ksi", {"event": 1}, id="ksi"),
        pytest.param(HERMES, "any", {"headed": 1}, id="any"),
        pytest.param("@tool a:b {}", "command", {"command": 1}, id="command"),
        pytest.param("Nothing.", "ksi", {}, id="prose"),
    ],
)
def test_auto_says_which_preset_reads_the_text(
    ksi: Callable[..., Result], text: str, preset: str, dialects: dict[str, int]
) -> None:
    found = msgspec.json.decode(ksi("extract", "--preset", "auto", stdin=text, text=False).stdout)
    assert (found["preset"], found["dialects"]) == (preset, dialects)
    assert len(found["calls"]) == sum(dialects.values())
    counts = ", ".join(f"{count} {dialect}" for dialect, count in dialects.items())
    shown = ksi("extract", "--preset", "auto", stdin=text)
    assert shown.stderr == f"stdin: preset {preset} ({counts or 'no calls in any dialect'})\n"


def test_auto_for_each_line(ksi: Callable[..., Result]) -> None:
    stdin = "\n".join(
        msgspec.json.encode({"id": n, "text": text}).decode()
        for n, text in enumerate([CALL, HERMES])
    )
    printed = ksi("extract", "--jsonl", "--preset", "auto", stdin=stdin).stdout.splitlines()
    assert [msgspec.json.decode(line)["preset"] for line in printed] == ["ksi", "any"]


def test_explained_for_people_and_as_json(ksi: Callable[..., Result]) -> None:
    explanation = explain(TEXT, protocol("ksi"))
    told = list(explained(TEXT, explanation, Paint(False), 100))
    assert ksi("extract", "--explain", stdin=TEXT).stdout.splitlines() == told
    found = msgspec.json.decode(ksi("extract", "--explain", stdin=TEXT, text=False).stdout)
    listed = msgspec.json.encode(findings_json(TEXT, explanation))
    assert found.pop("findings") == msgspec.json.decode(listed)
    assert found == to_json(explanation.extraction)


def test_tools_tell_the_types_of_arguments(ksi: Callable[..., Result], tmp_path: Path) -> None:
    text = "<function=f>\n<parameter=n>\n5\n</parameter>\n</function>"
    tools = tmp_path / "tools.json"
    tools.write_text('{"name": "f", "schema": {"properties": {"n": {"type": "string"}}}}')
    for words, args in (([], {"n": 5}), (["--tools", str(tools)], {"n": "5"})):
        result = ksi("extract", "--preset", "any", *words, stdin=text, text=False)
        assert msgspec.json.decode(result.stdout)["calls"][0]["args"] == args


def test_for_people(ksi: Callable[..., Result]) -> None:
    assert ksi("extract", stdin=f"First.\n{CALL}\n").stdout.splitlines() == [
        "✓ agent:status  characters 7-96, event",
        "  First.",
        f"> {CALL}",
        '  = {"agent_id":"ada","status":"ready"}',
        "",
        "1 call, 0 rejected",
    ]


def test_a_rejected_block_says_why(ksi: Callable[..., Result]) -> None:
    text = 'So: {"event": "agent:status", "data": {"status": "rea'
    [title, *_, summary] = ksi("extract", stdin=text).stdout.splitlines()
    [rejected] = extract(text, protocol("ksi")).rejected
    place = f"characters {rejected.start}-{rejected.end}, {rejected.dialect}"
    assert title == f"✗ {rejected.code}: {rejected.message}  {place}"
    assert summary == "0 calls, 1 rejected"


def test_a_preset_that_is_none(ksi: Callable[..., Result]) -> None:
    assert ksi("extract", "--preset", "odd", stdin="").exit_code == 2
