from __future__ import annotations

import json
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ksi_daemon.log.export.dump import dump
from ksi_daemon.log.model import EventFilter
from ksi_daemon.log.snapshot import Snapshot


def dumped(path: Path, **wanted: Any) -> list[dict[str, Any]]:
    with Snapshot.open(path) as snapshot:
        return [json.loads(line) for _, line in dump(snapshot, EventFilter(**wanted))]


def test_all_of_a_log(night: Path) -> None:
    first, *rows, last = dumped(night)
    with Snapshot.open(night) as snapshot:
        newest = snapshot.last_seq()
    assert (first["table"], first["format"], first["last_seq"]) == ("header", "ksi-log", newest)
    assert "filter" not in first
    counts = {name: count for name, count in last["rows"].items() if count}
    assert counts == Counter(row["table"] for row in rows)
    assert last["rows"]["events"] == newest
    assert {row["table"] for row in rows} >= {"events", "outcomes", "completions", "attempts"}


def test_the_end_has_the_digest_of_what_is_before(night: Path) -> None:
    with Snapshot.open(night) as snapshot:
        *before, last = [line for _, line in dump(snapshot, EventFilter())]
    assert json.loads(last)["sha256"] == sha256(b"".join(before)).hexdigest()


@pytest.mark.parametrize(
    ("wanted", "events", "attempts"),
    [
        pytest.param({"patterns": ("state:*",)}, {"state:set", "state:get"}, 5, id="by pattern"),
        pytest.param({"patterns": ("no:*",)}, {"no:such"}, 4, id="a call brings its reply along"),
        pytest.param({"patterns": ("x:y",)}, set(), 0, id="none"),
    ],
)
def test_a_part(night: Path, wanted: dict[str, Any], events: set[str], attempts: int) -> None:
    first, *rows, last = dumped(night, **wanted)
    assert first["filter"] == {"patterns": list(wanted["patterns"])}
    found = [row for row in rows if row["table"] == "events"]
    assert {row["name"] for row in found} == events
    assert last["rows"]["attempts"] == attempts
    assert "anchor" not in last["rows"]
    assert not any("hash" in row for row in found)


def test_the_seqs_tell_how_far_it_is(night: Path) -> None:
    with Snapshot.open(night) as snapshot:
        seqs = [seq for seq, _ in dump(snapshot, EventFilter()) if seq]
        assert seqs == list(range(1, snapshot.last_seq() + 1))
