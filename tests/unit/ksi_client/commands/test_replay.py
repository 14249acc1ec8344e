from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from ksi_client.cli import cli
from ksi_daemon.extraction.extractor import extract
from ksi_daemon.testing import Peer, connected, running_daemon, short_directory
from tests.loop import action, fence, native_call, prompted

EVENT = '{"event": "agent:status", "data": {"status": "ready"}}'
SLIP = '{"event": "agent:status", "data": {"status": "ready",}}'
BROKEN = '{"event": "agent:status", "data": {"status" "ready"}}'
TAGS = "<function=state:get><parameter=key>5</parameter></function>"


@pytest.fixture
def var() -> Iterator[Path]:
    with short_directory() as path:
        yield path


@asynccontextmanager
async def daemon(var: Path) -> AsyncIterator[Peer]:
    async with running_daemon(var) as socket, connected(socket) as peer:
        yield peer


async def said(peer: Peer, *replies: Any, message: str = "go", **fields: Any) -> None:
    """Have an agent write *replies*."""
    provider = {"type": "scripted", "replies": [*replies, "Done."], "on_empty": "repeat"}
    if capabilities := fields.pop("capabilities", None):
        provider["capabilities"] = capabilities
    asked = {"agent_id": "ada", "system": "You are a test.", "allow": ["state:*"]}
    await peer.ask("agent:spawn", {**asked, "provider": provider, **fields})
    agent_id = fields.get("agent_id", "ada")
    untrusted = {"agent_id": agent_id, "message": message, "untrusted": True, "wait": True}
    await peer.ask("agent:send", untrusted)


def replay(var: Path, *words: str, text: bool = True) -> Result:
    form = "--text" if text else "--json"
    given = ["--var", str(var), form, "replay", *words]
    return CliRunner().invoke(cli, given, env={"COLUMNS": "100"})


def last_line(result: Result) -> str:
    return result.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("replies", "fields", "blocks"),
    [
        pytest.param([f"{EVENT}\n{SLIP}\n{BROKEN}"], {}, 3, id="calls, mended and rejected ones"),
        pytest.param([EVENT], {"message": f"He wrote {EVENT}"}, 1, id="held: an echo"),
        pytest.param([EVENT], {"system": f"Say {EVENT}"}, 1, id="held: the example"),
        pytest.param(
            ['{"event": "state:set", "data": {"key": "k", "value": 1}}'],
            {"protocol": {"preset": "ksi", "nonce": "strict"}},
            1,
            id="refused: no key of its turn",
        ),
        pytest.param(
            [f"{EVENT}\n{BROKEN}", EVENT],
            {"protocol": {"preset": "ksi", "mode": "strict"}},
            3,
            id="refused with the whole reply",
        ),
        pytest.param(
            [EVENT + SLIP], {"protocol": {"preset": "ksi", "repair": "off"}}, 2, id="other settings"
        ),
        pytest.param(
            ['{"event": "no:such", "data": {}} {"event": "system:shutdown", "data": {}}'],
            {},
            2,
            id="unknown and denied",
        ),
        pytest.param(
            ['{"event": "state:set", "data": {"key": "k", "_x": 1, "value": {"_y": 1}}}'],
            {},
            1,
            id="keys that are the daemon's",
        ),
        pytest.param(
            [{"text": EVENT[:-3], "stop_reason": "length"}], {}, 1, id="cut off by length"
        ),
        pytest.param(
            [action("state:get", key="k"), '{"final": {"content": "done"}}'],
            {"protocol": "json_action", "tools": ["state:get"]},
            1,
            id="json_action",
        ),
        pytest.param(
            [prompted("state:get", key="k") * 2],
            {"protocol": "prompt_tools", "tools": ["state:get"]},
            1,
            id="the same call twice counts once",
        ),
        pytest.param(
            [fence("state:get", key="k")],
            {"protocol": "text_tagged", "tools": ["state:get"]},
            1,
            id="text_tagged",
        ),
        pytest.param(
            [TAGS], {"protocol": "any", "tools": ["state:get"]}, 1, id="typed by the schema"
        ),
        pytest.param(
            [
                {
                    "text": EVENT,
                    "tool_calls": [
                        native_call("state_get", key="k"),
                        {"id": "c2", "function": {"name": "state_get", "arguments": "{oops"}},
                    ],
                }
            ],
            {
                "protocol": "native_auto",
                "tools": ["state:get"],
                "capabilities": {"native_tool_calls": True},
            },
            2,
            id="native calls",
        ),
        pytest.param(
            [prompted("state:get", key="k")],
            {"protocol": "prompt_tools", "tools": [], "allow": []},
            0,
            id="tools that the agent has not",
        ),
        pytest.param(
            [EVENT * 3], {"limits": {"calls": 2}}, 3, id="more calls than it may"
        ),
    ],
)  # fmt: skip
async def test_what_was_logged_is_found_again(
    var: Path, replies: list[Any], fields: dict[str, Any], blocks: int
) -> None:
    async with daemon(var) as peer:
        await said(peer, *replies, **fields)
    result = replay(var)
    assert (result.exit_code, result.stderr) == (0, "")
    [line] = result.stdout.splitlines()
    assert f" {blocks} block{'s' * (blocks != 1)}, " in line
    assert line.endswith(": nothing differs")


async def test_a_log_is_replayed_with_its_daemon_and_without(var: Path) -> None:
    async with daemon(var) as peer:
        await said(peer, EVENT)
        during = replay(var)
    assert (replay(var).stdout, during.exit_code) == (during.stdout, 0)
    assert replay(Path("/nowhere"), "--log", str(var / "events.db")).stdout == during.stdout


async def test_other_settings_show_what_they_would_change(var: Path) -> None:
    async with daemon(var) as peer:
        await said(peer, f"First {EVENT}\nthen {SLIP}")
        wanted = {"patterns": ["completion:result"]}
        seq = (await peer.ask("monitor:get_events", wanted))["events"][0]["seq"]
    result = replay(var, "--repair", "off")
    assert result.exit_code == 1
    start = len(f"First {EVENT}\nthen ")
    place = f"characters {start}-{start + len(SLIP)}, event"
    assert result.stdout.splitlines() == [
        f"newly rejected  #{seq}  ada  scripted",
        f"  First {EVENT}",
        f"> then {SLIP}",
        "       " + "^" * len(SLIP),
        '- agent:status {"status":"ready","agent_id":"ada"}  '
        + f"{place}, repaired: trailing_comma"[: 100 - 53]
        + "…",
        f"+ rejected, malformed_block  {place}",
        "",
        "1 reply, 2 blocks, extractor 2 then, 2 now: 1 differ: 0 gained, 0 lost, 0 changed, "
        "0 newly repaired, 1 newly rejected",
    ]
    as_json = replay(var, "--repair", "off", text=False).stdout
    lines = [msgspec.json.decode(each) for each in as_json.splitlines()]
    assert lines[0]["kind"] == "rejected"
    assert (lines[0]["was"]["repairs"], lines[0]["now"]["code"]) == (
        ["trailing_comma"],
        "malformed_block",
    )
    assert lines[-1]["summary"]["differ"] == 1


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        pytest.param(["--preset", "command"], "lost", id="another preset"),
        pytest.param(["--legacy-event", "reject"], "rejected", id="the direct form refused"),
        pytest.param(["--mode", "strict"], "nothing differs", id="in strict mode"),
    ],
)
async def test_settings(var: Path, words: list[str], kind: str) -> None:
    async with daemon(var) as peer:
        await said(peer, EVENT)
    assert kind in replay(var, *words).stdout


@pytest.mark.parametrize(
    ("words", "replies"),
    [
        pytest.param([], 3, id="all"),
        pytest.param(["--agent", "bob"], 2, id="of an agent"),
        pytest.param(["--model", "scripted"], 3, id="of a model"),
        pytest.param(["--since", "1h"], 3, id="since"),
        pytest.param(["--until", "2100-01-01T00:00:00Z", "--agent", "ada"], 1, id="until"),
    ],
)
async def test_which_replies(var: Path, words: list[str], replies: int) -> None:
    async with daemon(var) as peer:
        await said(peer, EVENT)
        await said(peer, EVENT, agent_id="bob")
        await peer.ask("agent:send", {"agent_id": "bob", "message": "and?", "wait": True})
    assert replay(var, *words).stdout.startswith(f"{replies} repl{'ies' if replies > 1 else 'y'}, ")


async def test_an_extractor_that_reads_otherwise_is_seen(
    var: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon(var) as peer:
        await said(peer, f"{EVENT}\n{EVENT}")

    def half(text: str, *args: Any, **named: Any) -> Any:
        found = extract(text, *args, **named)
        return msgspec.structs.replace(found, calls=found.calls[:1])

    monkeypatch.setattr("ksi_daemon.extraction.reply.extract", half)
    result = replay(var)
    assert result.exit_code == 1
    assert "1 differ: 0 gained, 1 lost, 0 changed" in last_line(result)


async def test_a_golden_set_is_made_and_held(var: Path) -> None:
    async with daemon(var) as peer:
        await said(peer, f"{EVENT}\n{SLIP}\n{BROKEN}")
    file = var / "golden.jsonl"
    assert replay(var, "--write", str(file)).exit_code == 0
    held = replay(Path("/nowhere"), "--against", str(file))
    assert (held.exit_code, last_line(held)) == (
        0,
        "2 replies, 3 blocks, extractor 2 then, 2 now: nothing differs",
    )
    file.write_bytes(file.read_bytes().replace(b'"status":"ready"', b'"status":"steady"', 1))
    other = replay(var, "--against", str(file))
    assert other.exit_code == 1
    assert "1 differ: 0 gained, 0 lost, 1 changed" in last_line(other)
    # What `ksi extract` is given as JSON lines may be a golden set.
    extracted = CliRunner().invoke(cli, ["extract", "--jsonl", str(file)])
    assert len(extracted.stdout.splitlines()) == 2


async def test_a_log_whose_preset_is_not_known_says_so(var: Path) -> None:
    async with daemon(var) as peer:
        await said(peer, EVENT)
    with closing(sqlite3.connect(var / "events.db")) as log, log:
        log.execute("UPDATE completions SET preset = 'of tomorrow'")
        log.execute("DELETE FROM readings")
    result = replay(var)
    assert result.exit_code == 1
    assert "1 left out: this ksi has no such preset" in last_line(result)


async def test_a_log_of_an_earlier_ksi_is_read_by_the_preset(var: Path) -> None:
    async with daemon(var) as peer:
        await said(peer, f"{EVENT}\n{SLIP}")
    with closing(sqlite3.connect(var / "events.db")) as log, log:
        log.execute("DELETE FROM readings")
    assert last_line(replay(var)).endswith("nothing differs")


@pytest.mark.parametrize(
    ("content", "words", "code"),
    [
        pytest.param(None, [], "not_found", id="no log"),
        pytest.param(b"", [], "not_a_log", id="an empty file"),
        pytest.param(b"no database at all" * 100, [], "storage_failed", id="no database"),
        pytest.param(None, ["--against", "LOG"], None, id="no golden set"),
    ],
)
def test_what_cannot_be_replayed(
    var: Path, content: bytes | None, words: list[str], code: str | None
) -> None:
    if content is not None:
        (var / "events.db").write_bytes(content)
    result = replay(var, *(str(var / "no") if word == "LOG" else word for word in words))
    if code is None:
        assert (result.exit_code, "No such file or directory" in result.stderr) == (2, True)
    else:
        assert (result.exit_code, f"error {code}: " in result.stderr) == (1, True)


async def test_an_empty_log_and_a_newer_one(var: Path) -> None:
    async with running_daemon(var):
        pass
    assert replay(var).stderr == "error nothing_to_replay: there are no such replies of agents\n"
    with closing(sqlite3.connect(var / "events.db")) as log:
        log.execute("PRAGMA user_version = 999")
    result = replay(var)
    assert (result.exit_code, "error newer_schema: " in result.stderr) == (1, True)


@pytest.mark.parametrize(
    ("words", "exit_code", "stderr"),
    [
        pytest.param(["--preset", "odd"], 2, "'odd' is not one of", id="no preset"),
        pytest.param(["--since", "soon"], 2, "'soon' is no time", id="no time"),
        pytest.param(["--against", "GOLDEN", "--agent", "ada"], 2, "no part of one", id="a part"),
        pytest.param(["--against", "GOLDEN"], 1, "error bad_line: ", id="no golden set"),
        pytest.param(
            ["--against", "GOOD", "--write", "/nowhere/x"], 1, "cannot be written", id="no place"
        ),
    ],
)
def test_bad_words(var: Path, words: list[str], exit_code: int, stderr: str) -> None:
    (var / "golden").write_text("{}\n")
    (var / "good").write_text('{"id": 1, "text": "", "calls": []}\n')
    files = {"GOLDEN": str(var / "golden"), "GOOD": str(var / "good")}
    result = replay(var, *(files.get(word, word) for word in words))
    assert (result.exit_code, stderr in result.stderr) == (exit_code, True)
    assert not list(var.glob(".*"))
