"""``ksi log``: with a daemon that runs, and without one."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ksi_client import BlockingClient
from ksi_client.cli import cli
from ksi_daemon.testing import short_directory

Ksi = Callable[..., Result]


@pytest.fixture
def var() -> Iterator[Path]:
    with short_directory() as directory:
        yield directory / "v"


@pytest.fixture
def ksi(var: Path) -> Ksi:
    def run(*words: str) -> Result:
        return CliRunner().invoke(cli, ["log", *words, "--var", str(var)], env={"COLUMNS": "100"})

    return run


class House:
    """A daemon of its own process with five marks in its log."""

    def __init__(self, var: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ksi_daemon", "--var", str(var)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith(b"ready")
        with BlockingClient(var / "run" / "daemon.sock") as client:
            for label in "abcde":
                client.request("system:mark", {"label": label})

    def stop(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=20)


@pytest.fixture
def house(var: Path) -> Iterator[House]:
    running = House(var)
    yield running
    running.stop()


@pytest.fixture(params=["up", "down"])
def either(request: pytest.FixtureRequest, house: House) -> str:
    """With the daemon up, and down."""
    if request.param == "down":
        house.stop()
    return str(request.param)


def value(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def count(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        [(rows,)] = connection.execute("SELECT count(*) FROM events WHERE name = 'system:mark'")
    return int(rows)


def tampered(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER events_unchanged")
        connection.execute("UPDATE events SET data = '{}' WHERE seq = 4")


def test_verify(ksi: Ksi, var: Path, either: str) -> None:
    found = value(ksi("verify"))
    assert found["bad_seq"] is None
    assert found["events"] == found["seq"] >= 6
    text = ksi("verify", "--text").stdout.splitlines()
    assert text == [
        f"✓ sound  {found['events']} events and {found['outcomes']} outcomes from the first on",
        f"head  #{found['seq']}  {found['hash']}",
    ]


def test_verify_names_the_first_bad_event(ksi: Ksi, var: Path, either: str) -> None:
    tampered(var / "events.db")
    result = ksi("verify", "--text")
    assert (result.exit_code, result.stdout.splitlines()) == (
        1,
        [
            "✗ damaged at event #4: it is not what was written",
            "sound before it: 3 events and 0 outcomes from the first on",
        ],
    )


def test_verify_compares_with_what_was_kept_elsewhere(ksi: Ksi, var: Path, either: str) -> None:
    """A log that was written anew as a whole is sound in itself."""
    found = value(ksi("verify"))
    kept = f"{found['seq']}:{found['hash']}"
    assert value(ksi("verify", "--head", kept))["bad_seq"] is None
    result = ksi("verify", "--text", "--head", kept, "--head", f"3:{'0' * 64}")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (
        1,
        "✗ damaged at event #3: it has another hash than was kept of it",
    )
    later = ksi("verify", "--text", "--head", f"99:{'0' * 64}").stdout
    assert later.startswith("✗ damaged at event #99: it is missing")
    refused = ksi("verify", "--head", "3")
    assert (refused.exit_code, "is no SEQ:HASH" in refused.stderr) == (2, True)


def test_backup_and_restore(ksi: Ksi, var: Path, house: House) -> None:
    target = var.parent / "copy.db"
    copied = value(ksi("backup", str(target)))
    assert (copied["path"], copied["events"], count(target)) == (str(target), 6, 5)
    with BlockingClient(var / "run" / "daemon.sock") as client:
        client.request("system:mark", {"label": "later"})
    refused = ksi("restore", str(target))
    assert (refused.exit_code, "already_running" in refused.stderr) == (1, True)
    house.stop()
    restored = value(ksi("restore", str(target)))
    assert count(var / "events.db") == 5
    assert count(Path(restored["kept"])) == 6
    text = ksi("verify", "--log", restored["kept"], "--text")
    assert text.stdout.startswith("✓ sound")


def test_backup_replaces_nothing(ksi: Ksi, var: Path, house: House) -> None:
    result = ksi("backup", str(var / "events.db"))
    assert (result.exit_code, "already_exists" in result.stderr) == (1, True)


def test_prune(ksi: Ksi, var: Path, either: str) -> None:
    before = count(var / "events.db")
    dry = value(ksi("prune", "--before", "0s", "--dry-run"))
    assert dry["would_delete"] >= 6
    assert count(var / "events.db") == before
    found = value(ksi("prune", "--keep", "2"))
    assert found["why"] == "asked"
    assert count(var / "events.db") < before
    assert value(ksi("verify"))["after_seq"] == found["through_seq"]
    assert ksi("prune", "--before", "999d", "--text").stdout == "nothing to delete\n"


@pytest.mark.parametrize("words", [[], ["--before", "1d", "--keep", "3"]])
def test_prune_wants_one_limit(ksi: Ksi, words: list[str]) -> None:
    result = ksi("prune", *words)
    assert (result.exit_code, "say --before TIME or --keep N" in result.stderr) == (2, True)


def test_size(ksi: Ksi, var: Path, either: str) -> None:
    found = value(ksi("size"))
    assert {each["name"] for each in found["names"]} >= {"system:mark", "system:started"}
    assert sum(each["events"] for each in found["names"]) == found["events"]
    assert sum(day["bytes"] for day in found["days"]) == sum(e["bytes"] for e in found["names"])
    assert (found["retention_days"], found["due"], found["over_bytes"]) == (30, 0, 0)
    text = ksi("size", "--text").stdout
    assert "retention_days = 30: 0 events are older and will be deleted" in text
    assert "retention_bytes = 4.0 GiB: there is room" in text


def test_repair(ksi: Ksi, var: Path, house: House) -> None:
    assert "already_running" in ksi("repair").stderr
    house.stop()
    sound = ksi("repair")
    assert (sound.exit_code, "nothing_to_repair" in sound.stderr) == (1, True)
    tampered(var / "events.db")
    found = value(ksi("repair"))
    assert found["saved"]["events"] == found["last_seq"]
    assert count(Path(found["kept"])) == 5
    assert value(ksi("verify"))["after_seq"] == found["last_seq"]


def test_a_daemon_repairs_too(var: Path, house: House) -> None:
    """``ksi-daemon repair`` is what a daemon that refuses its log names."""
    house.stop()
    command = [sys.executable, "-m", "ksi_daemon", "--var", str(var)]
    with (var / "events.db").open("r+b") as file:
        file.write(bytes(100))
    refused = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert (refused.returncode, "ksi log repair" in refused.stderr) == (74, True)
    command = [sys.executable, "-m", "ksi_daemon", "repair", "--var", str(var)]
    mended = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert (mended.returncode, mended.stdout.startswith("saved ")) == (0, True), mended.stderr
    assert (mended.returncode, "the damaged log is kept" in mended.stdout) == (0, True)
    House(var).stop()


@pytest.mark.parametrize("command", ["verify", "size", "prune --keep 1", "backup x", "repair"])
def test_no_log(ksi: Ksi, var: Path, command: str) -> None:
    result = ksi(*command.split())
    assert result.exit_code == 1
    assert "not_found" in result.stderr or "no log" in result.stderr
    assert not (var / "events.db").exists()
