"""What changes a log needs the daemon's lock, and leaves what it does not know alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ksi_daemon import upkeep
from ksi_daemon.errors import Conflict, NotFound, StorageError, UsageError
from ksi_daemon.log.database import open_writer
from ksi_daemon.log.verification import verify
from ksi_daemon.testing import short_directory
from ksi_daemon.transports.lock import held


@pytest.fixture
def var() -> Iterator[Path]:
    with short_directory() as directory:
        made = directory / "v"
        made.mkdir(mode=0o700)
        open_writer(made / "events.db", "process").close()
        yield made


def backed_up(var: Path) -> Path:
    copy = var.parent / "copy.db"
    open_writer(copy, "process").close()
    return copy


DEEDS: dict[str, Callable[[Path], Any]] = {
    "restore": lambda var: upkeep.restore(var, backed_up(var)),
    "repair": upkeep.repair,
    "prune": lambda var: upkeep.prune(var, datetime.now(UTC)),
}


@pytest.mark.parametrize("deed", DEEDS)
def test_a_daemon_that_runs_is_left_alone(var: Path, deed: str) -> None:
    (var / "run").mkdir(mode=0o700)
    before = (var / "events.db").read_bytes()
    with (
        held(var / "run" / "daemon.lock"),
        pytest.raises(UsageError, match="already running") as caught,
    ):
        DEEDS[deed](var)
    assert caught.value.hint == "`ksi down` stops it"
    assert (var / "events.db").read_bytes() == before


def test_pruning_says_so_in_the_log(var: Path) -> None:
    assert upkeep.prune(var, datetime.now(UTC))["events"] == 0
    gone = upkeep.prune(var, datetime.now(UTC))
    assert gone["why"] == "asked"
    with closing(sqlite3.connect(var / "events.db")) as connection:
        rows = connection.execute("SELECT name, source FROM events ORDER BY seq").fetchall()
        assert verify(connection).bad_seq is None
    assert rows[-1] == ("log:pruned", "system")
    assert rows[-2][0] == "log:prune"


def newer(log: Path) -> None:
    with closing(sqlite3.connect(log)) as connection:
        connection.execute("PRAGMA user_version = 999")


def another(log: Path) -> None:
    with closing(sqlite3.connect(log)) as connection:
        connection.execute("PRAGMA application_id = 7")


@pytest.mark.parametrize(
    ("change", "error", "code"),
    [
        pytest.param(lambda log: None, Conflict, "nothing_to_repair", id="sound"),
        pytest.param(newer, StorageError, "newer_schema", id="of a newer ksi"),
        pytest.param(another, StorageError, "not_a_log", id="of another program"),
        pytest.param(Path.unlink, NotFound, "not_found", id="not there"),
    ],
)
def test_what_is_not_damaged_is_not_repaired(
    var: Path, change: Callable[[Path], None], error: type[Exception], code: str
) -> None:
    change(var / "events.db")
    before = {path.name: path.read_bytes() for path in var.iterdir() if path.is_file()}
    with pytest.raises(error) as caught:
        upkeep.repair(var)
    assert caught.value.code == code  # type: ignore[attr-defined]
    after = {path.name: path.read_bytes() for path in var.iterdir() if path.is_file()}
    assert after.keys() - {"events.db-wal", "events.db-shm"} == before.keys()
    assert all(after[name] == content for name, content in before.items())


def test_settings_are_those_of_the_directory(var: Path) -> None:
    (var / "ksi.toml").write_text("retention_days = 7\n")
    assert upkeep.settings_of(var).retention_days == 7
