from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner, Result

from ksi_client.cli import COMMANDS, cli
from ksi_client.testing import StubDaemon
from ksi_daemon.errors import Conflict
from ksi_daemon.events import ErrorInfo

ROOT = Path(__file__).parents[3]


@pytest.fixture
def process(stub: StubDaemon) -> Callable[..., subprocess.Popen[str]]:
    """``ksi`` as a process of its own."""

    def start(*words: str, socket: str | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "ksi_client", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "KSI_SOCKET": socket or stub.path},
        )

    return start


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_is_there(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert isinstance(command, click.Command)
    assert command.name == name
    assert command.help
    result = CliRunner().invoke(cli, [name, "--help"])
    assert (result.exit_code, result.stderr) == (0, "")


def test_the_help_lists_the_table(ksi: Callable[..., Result]) -> None:
    shown = ksi("--help").stdout
    assert [name for name in COMMANDS if f"\n  {name} " not in shown] == []
    assert ksi("help").stdout == shown


@pytest.mark.parametrize(
    ("words", "code", "stderr"),
    [
        pytest.param(["emit", "state:get"], 0, "", id="done"),
        pytest.param(
            ["emit", "state:gett"],
            1,
            "error unknown_event: no handler for event 'state:gett'\n"
            "hint: did you mean 'state:get'?\n",
            id="refused",
        ),
    ],
)
def test_exit_codes(
    process: Callable[..., subprocess.Popen[str]], words: list[str], code: int, stderr: str
) -> None:
    ksi = process(*words)
    assert (ksi.communicate(timeout=30)[1], ksi.returncode) == (stderr, code)


def test_no_daemon(process: Callable[..., subprocess.Popen[str]], run_dir: Path) -> None:
    ksi = process("agents", socket=str(run_dir / "absent"))
    out, err = ksi.communicate(timeout=30)
    assert (out, ksi.returncode) == ("", 69)
    assert err == f"error no_daemon: no daemon at '{run_dir}/absent'\nhint: ksi up starts one\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(["tial"], "no command 'tial'; did you mean 'tail'?", id="a typing error"),
        pytest.param(["emit", "a:b", "word"], "'word' is neither", id="a word that is no field"),
        pytest.param(["emit", "a:b", "{"], "no JSON object", id="JSON that is none"),
        pytest.param(["events", "--status", "odd"], "'odd' is not one of", id="a wrong choice"),
        pytest.param(["spawn", "x", "--provider", "{"], "is no JSON", id="a wrong provider"),
        pytest.param(["spawn", "x", "--var-set", "n"], "takes NAME=TEXT", id="a wrong variable"),
    ],
)
def test_usage(ksi: Callable[..., Result], words: list[str], says: str) -> None:
    result = ksi(*words)
    assert result.exit_code == 2
    assert says in result.stderr


def test_options_may_stand_before_the_command_or_after(stub: StubDaemon) -> None:
    before = CliRunner().invoke(cli, ["--socket", stub.path, "--json", "emit", "state:get"])
    after = CliRunner().invoke(cli, ["emit", "state:get", "--socket", stub.path, "--json"])
    assert before.stdout == after.stdout == '{"value":7,"version":1}\n'


EVIL = "\x1b[2J\u202e\x9b\n\r\u2028"
AGENT = {"agent_id": EVIL, "state": EVIL, "status": EVIL, "model": EVIL}
NAMED = {"name": "a:b", "class": EVIL, "summary": EVIL}
REPLY = {
    "request_id": EVIL,
    "text": EVIL,
    "turns": 1,
    "finish_reason": EVIL,
    "calls": [{"id": EVIL, "name": EVIL, "status": EVIL, "result": {EVIL: EVIL}}],
}
ERROR = {"code": EVIL, "message": EVIL, "hint": EVIL}
ATTEMPT = {
    "seq": 1,
    "ts": "2026-01-31T12:00:00Z",
    **dict.fromkeys(("state", "kind", "code", "agent_id", "provider", "model", "dialect"), EVIL),
    **dict.fromkeys(("tool", "text", "correction"), EVIL),
    "error": ERROR,
    "repairs": [EVIL],
    "start": 0,
    "end": 1,
    "reply": EVIL * 9,
    "fixes": [
        {"ts": "2026-01-31T12:00:00Z", "kind": kind, "source": EVIL, "reason": EVIL, "error": ERROR}
        for kind in ("dismissed", "edited")
    ],
}
FIXED = {"attempt": 1, "seq": 2, "event": EVIL, "status": EVIL, "result": {EVIL: EVIL}}
WHY = {
    "checks": [{"check": EVIL, "passed": True}],
    "handler": {"kind": EVIL, "effect": EVIL, "summary": EVIL, "handlers": 2},
    "result": {EVIL: EVIL},
    "causes": [],
    "effects": [],
    "lost_cause": EVIL,
    "state": EVIL,
    "correction": EVIL * 9,
}
ANSWERS = {
    "monitor:attempts": {
        "attempts": [ATTEMPT],
        "counts": {"open": 1, "kinds": {EVIL: 1}, "fixes": {EVIL: 1}},
    },
    "monitor:retry_attempt": FIXED,
    "agent:list": {"agents": [AGENT, AGENT]},
    "agent:send": REPLY,
    "agent:spawn": AGENT,
    "agent:terminate": {"terminated": [EVIL], "dry_run": False},
    "monitor:reliability": {"rows": [{"model": EVIL, "dialect": EVIL, "seen": 1}]},
    "monitor:get_stats": {EVIL: {EVIL: EVIL}},
    "system:stats": {EVIL: EVIL},
    "system:health": {EVIL: [EVIL]},
    "system:discover": {"events": [NAMED], "notices": [NAMED]},
    "system:help": {
        **NAMED,
        "schema": {"description": EVIL, "properties": {EVIL: {"type": EVIL, "default": EVIL}}},
        "example": {"event": EVIL, "data": {EVIL: EVIL}},
    },
    "test:evil": {EVIL: EVIL},
}


@pytest.mark.parametrize(
    "words",
    [
        ["agents"],
        ["send", "ada", "hi"],
        ["send", "ada", "hi", "--no-wait"],
        ["spawn", "x", "--prompt", "hi"],
        ["terminate", "ada"],
        ["reliability"],
        ["stats"],
        ["discover"],
        ["help", "a:b"],
        ["emit", "test:evil"],
        ["events"],
        ["tree", "1"],
        ["why", "1"],
        ["attempts"],
        ["attempts", "show", "1"],
        ["attempts", "fix", "1", "--as", '{"event": "a:b"}'],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("text", [True, False], ids=["text", "json"])
def test_nothing_that_a_stranger_wrote_reaches_the_terminal_as_it_is(
    stub: StubDaemon, ksi: Callable[..., Result], words: list[str], text: bool
) -> None:
    event = stub.emit("agent:send", {"message": EVIL, EVIL: EVIL})
    event.source = event.correlation_id = EVIL
    event.error = ErrorInfo(EVIL, EVIL)
    stub.answers |= ANSWERS | {
        "monitor:get_events": {"events": [event], "last_seq": 1},
        "monitor:tree": {"correlation_id": EVIL, "events": [event]},
        "monitor:why": WHY | {"event": event},
    }
    result = ksi(*words, text=text)
    assert (result.exit_code, result.stderr) == (0, "")
    for line in result.stdout.split("\n"):
        assert line.isprintable()
        if line and not text:
            msgspec.json.decode(line)


def test_a_reader_that_had_enough_ends_it_quietly(
    stub: StubDaemon, process: Callable[..., subprocess.Popen[str]]
) -> None:
    stub.emit("a:b")
    ksi = process("tail", "--after", "0")
    assert ksi.stdout is not None
    assert ksi.stderr is not None
    assert ksi.stdout.readline().startswith('{"seq":1')
    ksi.stdout.close()
    stub.emit("a:b")
    stub.emit("a:b")
    assert ksi.wait(30) == 141
    assert ksi.stderr.read() == ""
    ksi.stderr.close()


def test_ctrl_c_ends_it_quietly(
    stub: StubDaemon, process: Callable[..., subprocess.Popen[str]]
) -> None:
    stub.emit("a:b")
    ksi = process("tail", "--after", "0")
    assert ksi.stdout is not None
    ksi.stdout.readline()
    ksi.send_signal(signal.SIGINT)
    assert ksi.communicate(timeout=30) == ("", "")
    assert ksi.returncode == 130


def test_tail_waits_for_a_daemon_that_is_gone_and_gives_up(
    stub: StubDaemon, process: Callable[..., subprocess.Popen[str]]
) -> None:
    stub.emit("a:one")
    stub.emit("a:two")
    stub.pushes.append(1)
    ksi = process("tail", "--after", "0", "--patience", "0.1")
    assert ksi.stdout is not None
    assert [ksi.stdout.readline()[:8] for _ in "12"] == ['{"seq":1', '{"seq":2']
    stub.stop()
    out, err = ksi.communicate(timeout=30)
    assert (out, ksi.returncode) == ("", 69)
    assert err.splitlines()[:2] == ["the daemon is gone; waiting for it to come back"] * 2
    assert err.splitlines()[2:] == [
        f"error no_daemon: no daemon at {stub.path!r}",
        "hint: ksi up starts one",
    ]


def test_what_a_stranger_wrote_into_an_error_is_escaped(
    stub: StubDaemon, ksi: Callable[..., Result]
) -> None:
    def refuse(data: object) -> None:
        raise Conflict("\x1b[2J", hint="\u202e")

    stub.answers["a:b"] = refuse
    assert ksi("emit", "a:b").stderr == "error wrong_state: \\e[2J\nhint: \\u202e\n"
