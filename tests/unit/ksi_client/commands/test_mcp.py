from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ksi_daemon.testing import short_directory

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.getcwd()}
LIST = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'


def ksi(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ksi_client", *words],
        input=text,
        capture_output=True,
        text=True,
        timeout=30,
        env=ENVIRONMENT,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "named"),
    [
        pytest.param((), [], id="the daemon's profile"),
        pytest.param(("--profile", "team"), ["--profile", "team"], id="another"),
    ],
)
def test_the_configuration_starts_it_from_anywhere(
    words: tuple[str, ...], named: list[str]
) -> None:
    with short_directory() as directory:
        printed = ksi("mcp", "--config", "--var", os.path.relpath(directory / "v"), *words)
        entry = json.loads(printed.stdout)["mcpServers"]["ksi"]
        assert entry == {
            "command": sys.executable,
            "args": ["-m", "ksi_client", "mcp", "--var", str(directory / "v"), *named],
        }
        started = subprocess.run(
            [entry["command"], *entry["args"]],
            input=LIST,
            capture_output=True,
            text=True,
            timeout=30,
            env=ENVIRONMENT,
            cwd="/",
            check=False,
        )
    assert json.loads(started.stdout)["error"]["data"]["code"] == "no_daemon"


def test_a_socket_is_named_where_one_was_given() -> None:
    printed = ksi("mcp", "--config", "--socket", "/run/x/daemon.sock")
    entry = json.loads(printed.stdout)["mcpServers"]["ksi"]
    assert entry["args"][-2:] == ["--socket", "/run/x/daemon.sock"]


def test_a_socket_that_the_environment_names_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVIRONMENT, "KSI_SOCKET", "/run/y/daemon.sock")
    entry = json.loads(ksi("mcp", "--config").stdout)["mcpServers"]["ksi"]
    assert entry["args"][-2:] == ["--socket", "/run/y/daemon.sock"]


def test_it_ends_with_its_input_and_says_nothing_else(tmp_path: Path) -> None:
    ended = ksi("mcp", "--var", str(tmp_path))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_its_help_shows_how_to_put_it_into_a_configuration() -> None:
    text = ksi("mcp", "--help").stdout
    assert "ksi mcp --config > ksi.json" in text
    assert "--mcp-config ksi.json" in text
