from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from ksi_client.cli import cli
from ksi_client.testing import StubDaemon


@pytest.fixture(autouse=True)
def _names(stub: StubDaemon) -> None:
    stub.answers |= {
        "system:discover": lambda data: {"events": [{"name": data["pattern"].replace("*", "x")}]},
        "composition:list": {
            "components": [{"name": "agents/ada"}, {"name": "profiles/team"}],
            "broken": [{"name": "agents/bad", "error": "no YAML"}],
        },
        "routing:list_rules": {"rules": [{"name": "low"}, {"name": "high"}]},
        "timer:list": {"timers": [{"name": "tea"}, {"name": "nap"}]},
        "agent:list": {"agents": [{"agent_id": "ada"}, {"agent_id": "bob"}]},
    }


def completed(words: list[str], incomplete: str) -> list[str]:
    shell = ShellComplete(cli, {}, "ksi", "_KSI_COMPLETE")
    return [item.value for item in shell.get_completions(words, incomplete)]


@pytest.mark.parametrize(
    ("words", "incomplete", "names"),
    [
        pytest.param(["emit"], "agent:", ["agent:x"], id="events"),
        pytest.param(["help"], "ag", ["agx"], id="events to describe"),
        pytest.param(["send"], "a", ["ada"], id="agents"),
        pytest.param(["terminate", "ada"], "", ["ada", "bob"], id="more agents"),
        pytest.param(["events", "--agent"], "b", ["bob"], id="agents of an option"),
        pytest.param([], "rel", ["reliability"], id="commands"),
        pytest.param(["spawn"], "a", ["agents/ada", "agents/bad"], id="components"),
        pytest.param(["components", "show"], "p", ["profiles/team"], id="a component to show"),
        pytest.param(["rules", "rm", "low"], "h", ["high"], id="rules"),
        pytest.param(["rules", "add", "n", "a:b"], "a", ["ada", "ax"], id="what a rule does"),
        pytest.param(["timers", "cancel"], "t", ["tea"], id="timers"),
        pytest.param(["components", "validate", "x"], "p", ["profiles/team"], id="more of them"),
    ],
)
def test_names_come_from_the_daemon(
    stub: StubDaemon,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    incomplete: str,
    names: list[str],
) -> None:
    monkeypatch.setenv("KSI_SOCKET", stub.path)
    assert completed(words, incomplete) == names


def test_options_say_which_daemon(stub: StubDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSI_SOCKET", "/nowhere")
    assert completed(["--socket", stub.path, "send"], "a") == ["ada"]


def test_without_a_daemon_there_are_none(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KSI_SOCKET", str(run_dir / "absent"))
    assert completed(["emit"], "agent:") == []
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("answer", [None, [1], "text"])
def test_an_odd_answer_completes_nothing(
    stub: StubDaemon, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    monkeypatch.setenv("KSI_SOCKET", stub.path)
    stub.answers["system:discover"] = answer
    assert completed(["emit"], "a") == []
