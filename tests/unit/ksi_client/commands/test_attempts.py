from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result

from ksi_client.testing import StubDaemon
from ksi_daemon.errors import Conflict, KsiError

CALL = '{"event": "a:b", "data": {"k" 1}}'
ATTEMPT = {
    "seq": 17,
    "event": "extraction:rejected",
    "ts": "2026-01-31T12:00:00Z",
    "state": "open",
    "kind": "rejected",
    "code": "malformed_block",
    "error": {"code": "malformed_block", "message": "expected ':'"},
    "agent_id": "ada",
    "provider": "scripted",
    "model": "m",
    "dialect": "event",
    "tool": None,
    "repairs": [],
    "start": 6,
    "end": 6 + len(CALL),
    "corrected": 0,
    "correction": "Not run.",
    "text": CALL,
    "reply": f"Here: {CALL}",
    "fixes": [],
}
COUNTS = {"open": 1, "resolved": 2, "dismissed": 0, "kinds": {"rejected": 3}, "fixes": {}}
FIXED = {"attempt": 17, "seq": 20, "event": "a:b", "status": "handled", "result": {"n": 1}}


@pytest.fixture(autouse=True)
def _answers(stub: StubDaemon) -> None:
    stub.answers["monitor:attempts"] = {"attempts": [ATTEMPT], "counts": COUNTS}
    stub.answers["monitor:retry_attempt"] = FIXED
    stub.answers["monitor:dismiss_attempt"] = {"attempt": 17, "state": "dismissed"}


def asked(stub: StubDaemon) -> list[tuple[str, Any]]:
    return [(wire.event, msgspec.json.decode(wire.data)) for wire in stub.requests]


@pytest.mark.parametrize(
    ("words", "data"),
    [
        pytest.param([], {"state": "open"}, id="what is open"),
        pytest.param(["--state", "all"], {}, id="all"),
        pytest.param(
            ["--agent", "ada", "--model", "m", "--code", "denied", "--state", "resolved"],
            {"agent_id": "ada", "model": "m", "code": "denied", "state": "resolved"},
            id="chosen",
        ),
        pytest.param(
            ["--kind", "held", "--since", "2026-01-31T12:00:00Z", "--before", "9", "-n", "3"],
            {"kind": "held", "since": "2026-01-31T12:00:00Z", "before_seq": 9, "limit": 3,
             "state": "open"},
            id="a page",
        ),
    ],
)  # fmt: skip
def test_what_is_asked(
    stub: StubDaemon, ksi: Callable[..., Result], words: list[str], data: dict[str, Any]
) -> None:
    assert ksi("attempts", *words).exit_code == 0
    assert asked(stub) == [("monitor:attempts", {"limit": 50, **data})]


def test_the_list(ksi: Callable[..., Result]) -> None:
    assert ksi("attempts").stdout.splitlines() == [
        "attempt  when            agent  model  what             event  state  text",
        "    #17  01-31 12:00:00  ada    m      malformed_block  -      open   "
        '{"event": "a:b", "data": {"k"…',
        "",
        "1 open, 2 resolved, 0 dismissed (3 rejected)",
    ]
    [line] = ksi("attempts", text=False).stdout.splitlines()
    assert msgspec.json.decode(line) == ATTEMPT


def test_one_in_full(stub: StubDaemon, ksi: Callable[..., Result]) -> None:
    assert ksi("attempts", "show", "#17").stdout.splitlines() == [
        "attempt #17  open  ada, scripted m, 01-31 12:00:00",
        "",
        f"> Here: {CALL}",
        "        " + "^" * len(CALL),
        f"characters 6-{6 + len(CALL)}, dialect event",
        "",
        "what was wrong",
        "  malformed_block: expected ':'",
        "what the agent was told",
        "  Not run.",
    ]
    assert asked(stub) == [("monitor:attempts", {"attempt": 17})]


@pytest.mark.parametrize(
    ("words", "stdin", "request_"),
    [
        pytest.param(
            ["--as", '{"event": "a:b", "data": {"k": 1}}'],
            None,
            {"force": False, "event": "a:b", "data": {"k": 1}},
            id="as",
        ),
        pytest.param(
            ["--as", "-", "--force"],
            '{"event": "a:b"}',
            {"force": True, "event": "a:b", "data": {}},
            id="from stdin",
        ),
    ],
)
def test_a_fix(
    stub: StubDaemon,
    ksi: Callable[..., Result],
    words: list[str],
    stdin: str | None,
    request_: dict[str, Any],
) -> None:
    result = ksi("attempts", "fix", "17", *words, stdin=stdin)
    assert result.stdout.splitlines() == ["✓ #20 a:b, in place of attempt #17: handled", '{"n":1}']
    assert asked(stub) == [("monitor:retry_attempt", {"attempt": 17, **request_})]


@pytest.mark.parametrize(
    ("event", "text", "request_"),
    [
        pytest.param("a:b", CALL, {}, id="the event that it became"),
        pytest.param(
            "extraction:rejected",
            '{"event": "a:b", "data": {"k": 1}}',
            {"event": "a:b", "data": {"k": 1}},
            id="what was held",
        ),
    ],
)
def test_the_same_call_again(
    stub: StubDaemon, ksi: Callable[..., Result], event: str, text: str, request_: dict[str, Any]
) -> None:
    found = {**ATTEMPT, "event": event, "text": text}
    stub.answers["monitor:attempts"] = {"attempts": [found], "counts": COUNTS}
    assert ksi("attempts", "fix", "17", "--again").exit_code == 0
    fixed = {"attempt": 17, "force": False, **request_}
    assert asked(stub)[1:] == [("monitor:retry_attempt", fixed)]


def test_what_cannot_be_read_is_not_submitted_again(
    stub: StubDaemon, ksi: Callable[..., Result]
) -> None:
    result = ksi("attempts", "fix", "17", "--again")
    assert (result.exit_code, "error not_mended: " in result.stderr) == (1, True)
    assert len(stub.requests) == 1


def editor(directory: Path, change: str) -> str:
    """Return a command that edits a file: a real process, as a person's editor is."""
    script = directory / "edit.py"
    script.write_text(
        "import pathlib, sys\nfile = pathlib.Path(sys.argv[1])\ntext = file.read_text()\n"
        f"{change}\nfile.write_text(text)\n"
    )
    return f"{sys.executable} {script}"


def test_an_edited_text_is_read_and_submitted(
    stub: StubDaemon, ksi: Callable[..., Result], run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", editor(run_dir, """text = text.replace('"k" 1', '"k": 1')"""))
    assert ksi("attempts", "fix", "17", "--edit").exit_code == 0
    fixed = {"attempt": 17, "force": False, "event": "a:b", "data": {"k": 1}}
    assert asked(stub)[1:] == [("monitor:retry_attempt", fixed)]


@pytest.mark.parametrize(
    ("change", "stderr"),
    [
        pytest.param("", "nothing was submitted\n", id="left as it was"),
        pytest.param("text = ''", "nothing was submitted\n", id="emptied"),
        pytest.param("text += '}'", "error not_mended: what was edited holds no", id="still wrong"),
    ],
)
def test_what_is_not_mended_is_not_submitted(
    stub: StubDaemon,
    ksi: Callable[..., Result],
    run_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
    stderr: str,
) -> None:
    monkeypatch.setenv("VISUAL", editor(run_dir, change))
    result = ksi("attempts", "fix", "17", "--edit")
    assert (result.exit_code, result.stderr.startswith(stderr)) == (1, True)
    assert len(stub.requests) == 1


def test_one_is_dismissed(stub: StubDaemon, ksi: Callable[..., Result]) -> None:
    result = ksi("attempts", "fix", "17", "--dismiss", "--reason", "a quotation")
    assert result.stdout == "dismissed attempt #17\n"
    assert asked(stub) == [("monitor:dismiss_attempt", {"attempt": 17, "reason": "a quotation"})]


def test_a_fix_that_did_not_come_to_good(stub: StubDaemon, ksi: Callable[..., Result]) -> None:
    error = {"code": "args_schema", "message": "no `value`", "hint": "give one"}
    stub.answers["monitor:retry_attempt"] = {**FIXED, "status": "rejected", "error": error}
    result = ksi("attempts", "fix", "17", "--as", '{"event": "a:b"}')
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "✗ #20 a:b, in place of attempt #17: rejected",
        "args_schema: no `value`",
        "hint: give one",
    ]


def test_a_second_fix_is_refused(stub: StubDaemon, ksi: Callable[..., Result]) -> None:
    def refuse(data: Any) -> KsiError:
        raise Conflict("attempt #17 was fixed by event #20", code="already_fixed")

    stub.answers["monitor:retry_attempt"] = refuse
    result = ksi("attempts", "fix", "17", "--as", '{"event": "a:b"}')
    assert (result.exit_code, result.stderr) == (
        1,
        "error already_fixed: attempt #17 was fixed by event #20\n",
    )


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["fix", "17"], id="no way to fix it"),
        pytest.param(["fix", "17", "--again", "--dismiss"], id="two ways"),
        pytest.param(["fix", "17", "--again", "--reason", "x"], id="a reason for a fix"),
        pytest.param(["fix", "x17", "--again"], id="no number"),
        pytest.param(["show", "9" * 30], id="no number that can be"),
        pytest.param(["--state", "odd"], id="no state"),
        pytest.param(["-n", "0"], id="none"),
    ],
)
def test_what_makes_no_sense(
    stub: StubDaemon, ksi: Callable[..., Result], words: list[str]
) -> None:
    assert ksi("attempts", *words).exit_code == 2
    assert stub.requests == []
