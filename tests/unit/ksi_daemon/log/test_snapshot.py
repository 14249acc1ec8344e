from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ksi_daemon.errors import KsiError
from ksi_daemon.log.model import EventFilter
from ksi_daemon.log.snapshot import Snapshot


def changed(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(sql)
        connection.commit()


def overwritten(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        pytest.param(Path.unlink, "not_found", id="no file"),
        pytest.param(lambda path: path.write_text("{}\n" * 400), "storage_failed", id="a text"),
        pytest.param(lambda path: path.write_bytes(b""), "not_a_log", id="an empty file"),
        pytest.param(
            lambda path: changed(path, "PRAGMA application_id = 7"), "not_a_log", id="another's"
        ),
        pytest.param(
            lambda path: changed(path, "PRAGMA user_version = 999"), "newer_schema", id="newer"
        ),
        pytest.param(
            lambda path: changed(path, "PRAGMA user_version = 3"), "older_schema", id="older"
        ),
        pytest.param(
            lambda path: overwritten(path, 4096, b"\xff" * 8192), "storage_failed", id="damaged"
        ),
    ],
)
def test_what_cannot_be_read(night: Path, tmp_path: Path, spoil: Any, code: str) -> None:
    path = Path(shutil.copy(night, tmp_path / "events.db"))
    spoil(path)
    with pytest.raises(KsiError) as caught, Snapshot.open(path) as snapshot:
        list(snapshot.records(EventFilter()))
    assert caught.value.code == code
    assert str(path) in caught.value.message


def test_it_is_one_moment_of_a_log_that_grows(night: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(night, tmp_path / "events.db"))
    with Snapshot.open(path) as snapshot:
        before = snapshot.last_seq()
        changed(
            path,
            "INSERT INTO events (seq, id, ts, name, data, source, correlation_id, hop, status)"
            " VALUES (99, 'e99', 1, 'a:b', '{}', 's', 'e99', 0, 'handled')",
        )
        assert snapshot.last_seq() == before
    with Snapshot.open(path) as snapshot:
        assert snapshot.last_seq() == 99


def test_a_log_in_a_directory_that_may_not_be_written(
    night: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(shutil.copy(night, tmp_path / "events.db"))
    monkeypatch.setattr(os, "access", lambda *args: False)
    with Snapshot.open(path) as snapshot:
        assert snapshot.bounds() == (1, 26)
        assert [each.name for each in tmp_path.iterdir()] == ["events.db"]


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        pytest.param({}, 26, id="all"),
        pytest.param({"patterns": ("*:set",)}, 1, id="by pattern"),
        pytest.param({"patterns": ("s*t*:*t",)}, 3, id="by a pattern of many parts"),
        pytest.param({"since": datetime(2200, 1, 1, tzinfo=UTC)}, 0, id="later"),
        pytest.param({"until": datetime(2200, 1, 1, tzinfo=UTC)}, 26, id="earlier"),
    ],
)
def test_records(night: Path, wanted: dict[str, Any], count: int) -> None:
    with Snapshot.open(night) as snapshot:
        found = [record.seq for record in snapshot.records(EventFilter(**wanted))]
    assert len(found) == count
    assert found == sorted(found)
