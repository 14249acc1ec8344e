from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ksi_client.cli import cli
from ksi_daemon.testing import running_daemon, short_directory

Doctor = Callable[..., Result]


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch) -> Doctor:
    monkeypatch.delenv("KSI_SOCKET", raising=False)

    def run(var: Path, *words: str) -> Result:
        return CliRunner().invoke(cli, ["doctor", "--var", str(var), *words])

    return run


def test_a_new_directory_is_in_order(doctor: Doctor, run_dir: Path) -> None:
    result = doctor(run_dir / "v", "--text")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] in ("nothing is wrong", "1 worth a look")
    assert not (run_dir / "v").exists()


def test_a_fault_is_an_exit_code_and_a_line_of_json(doctor: Doctor, run_dir: Path) -> None:
    (run_dir / "ksi.toml").write_text("nonsense = 1")
    result = doctor(run_dir)
    assert result.exit_code == 1
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    [settings] = [row for row in rows if row["check"] == "settings"]
    assert settings == {
        "check": "settings",
        "level": "fail",
        "text": f"{run_dir}/ksi.toml: unknown setting 'nonsense'",
        "fix": f"${{EDITOR:-vi}} {run_dir}/ksi.toml",
    }


async def test_a_running_daemon_lints_its_components() -> None:
    from anyio.to_thread import run_sync

    with short_directory() as directory:
        (directory / "c").mkdir()
        (directory / "c" / "odd.md").write_text("Write a `stat:set` event.\n")
        settings = {"components": str(directory / "c"), "durability": "power"}
        async with running_daemon(directory / "v", **settings):
            result = await run_sync(
                lambda: CliRunner().invoke(cli, ["doctor", "--var", str(directory / "v")])
            )
    found = {row["check"]: row for row in map(json.loads, result.stdout.splitlines())}
    assert found["daemon"]["level"] == "ok"
    assert found["version"]["level"] == "ok"
    assert found["components"]["level"] == "fail"
    assert "odd: " in found["components"]["text"]
