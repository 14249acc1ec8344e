from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path

import pytest

from ksi_daemon.errors import KsiError
from ksi_daemon.log.export import parquet
from ksi_daemon.log.export.parquet import write_parquet
from ksi_daemon.log.model import EventFilter
from ksi_daemon.log.snapshot import Snapshot


def test_a_row_for_each_event(night: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = pytest.importorskip("pyarrow.parquet").read_table
    monkeypatch.setattr(parquet, "GROUP", 10)
    out = BytesIO()
    with Snapshot.open(night) as snapshot:
        records = list(snapshot.records(EventFilter()))
        write_parquet(iter(records), out)
    rows = read(out).to_pylist()
    assert [row["seq"] for row in rows] == [record.seq for record in records]
    [denied] = [row for row in rows if row["status"] == "denied"]
    assert (denied["event"], denied["error_code"], denied["agent_id"]) == (
        "agent:terminate",
        "denied",
        "ann",
    )
    replies = [row for row in rows if row["model"] is not None]
    assert [(row["event"], row["provider"], row["turn"]) for row in replies[:2]] == [
        ("completion:result", "scripted", 1),
        ("completion:result", "scripted", 2),
    ]
    assert rows[0]["time"].utcoffset().total_seconds() == 0


def test_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(KsiError, match="pyarrow") as caught:
        write_parquet([], BytesIO())
    assert (caught.value.code, caught.value.hint) == ("extra_missing", "pip install 'ksi[parquet]'")
