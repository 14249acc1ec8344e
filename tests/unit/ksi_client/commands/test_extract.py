from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

from ksi_daemon.extraction import extract, protocol, to_json

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


def test_a_line_that_is_none_is_named(ksi: Callable[..., Result]) -> None:
    result = ksi("extract", "--jsonl", stdin='{"id": 1, "text": ""}\n\n{"id": 2}\n')
    assert result.exit_code == 2
    assert "line 3: Object missing required field `text`" in result.stderr


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
