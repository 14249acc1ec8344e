from __future__ import annotations

import asyncio
import io
import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ksi_daemon.errors import Conflict, KsiError
from ksi_daemon.log.database import migrations
from ksi_daemon.log.export.dump import dump
from ksi_daemon.log.export.restore import restore
from ksi_daemon.log.model import EventFilter
from ksi_daemon.log.snapshot import Snapshot
from ksi_daemon.log.verification import verify
from ksi_daemon.testing import connected, running_daemon, short_directory

Change = Callable[[list[bytes]], list[bytes]]


def dumped(path: Path, **wanted: Any) -> list[bytes]:
    with Snapshot.open(path) as snapshot:
        return [line for _, line in dump(snapshot, EventFilter(**wanted))]


def restored(lines: list[bytes], path: Path) -> Any:
    return restore(io.BytesIO(b"".join(lines)), path)


async def asked(log: Path) -> dict[str, Any]:
    """Return what a daemon on a copy of *log* says of it: its reports and its stories."""
    with short_directory() as directory:
        (directory / "v").mkdir(mode=0o700)
        shutil.copy(log, directory / "v" / "events.db")
        async with running_daemon(directory / "v") as socket, connected(socket) as peer:
            events = (await peer.ask("monitor:get_events", {"before_seq": 27, "limit": 100}))[
                "events"
            ]
            stories = {event["correlation_id"] for event in events}
            return {
                "events": events,
                "reliability": await peer.ask(
                    "monitor:reliability", {"group_by": ["tool", "dialect"]}
                ),
                "trees": {
                    story: await peer.ask("monitor:tree", {"correlation_id": story})
                    for story in stories
                },
                "why": [await peer.ask("monitor:why", {"seq": event["seq"]}) for event in events],
            }


def test_an_imported_log_answers_as_the_log(night: Path, tmp_path: Path) -> None:
    restored(dumped(night), tmp_path / "new.db")
    here, there = asyncio.run(asked(night)), asyncio.run(asked(tmp_path / "new.db"))
    assert len(there["events"]) == 26
    assert there == here


async def test_what_was_pruned_is_still_counted(night: Path, tmp_path: Path) -> None:
    with short_directory() as directory:
        (directory / "v").mkdir(mode=0o700)
        path = Path(shutil.copy(night, directory / "v" / "events.db"))
        async with running_daemon(directory / "v") as socket, connected(socket) as peer:
            await peer.ask("log:prune", {"before": "2200-01-01T00:00:00Z"})
            report = await peer.ask("monitor:reliability")
        restored(dumped(path), tmp_path / "new.db")
    with Snapshot.open(tmp_path / "new.db") as snapshot:
        assert snapshot.bounds()[0] > 1
        rows = list(snapshot.rows("SELECT model, dialect, seen FROM v_reliability ORDER BY seen"))
    assert rows == [(row["model"], row["dialect"], row["seen"]) for row in report["rows"]]
    assert sum(seen for _, _, seen in rows) == 6


def test_the_counts_of_a_part_are_its_own(night: Path, tmp_path: Path) -> None:
    restored(dumped(night, patterns=("no:*",)), tmp_path / "new.db")
    with Snapshot.open(tmp_path / "new.db") as snapshot:
        [(seen,)] = snapshot.rows("SELECT sum(seen) FROM v_reliability")
    assert seen == 4


def test_it_is_the_same_log(night: Path, tmp_path: Path) -> None:
    found = restored(dumped(night), tmp_path / "new.db")
    assert found.rows["events"] == 26
    # All but the header, which says when, and the end, which has the digest.
    assert dumped(tmp_path / "new.db")[1:-1] == dumped(night)[1:-1]
    with Snapshot.open(tmp_path / "new.db") as snapshot:
        assert verify(snapshot.connection).bad_seq is None


def test_what_acts_stays_behind(night: Path, tmp_path: Path) -> None:
    restored(dumped(night), tmp_path / "new.db")
    with Snapshot.open(tmp_path / "new.db") as snapshot:
        for table in ("agents", "messages", "state"):
            assert list(snapshot.rows(f"SELECT * FROM {table}")) == []


def test_a_part_is_a_log_too(night: Path, tmp_path: Path) -> None:
    found = restored(dumped(night, agent_id="ann"), tmp_path / "new.db")
    assert found.header.filter == {"agent_id": "ann"}
    with Snapshot.open(tmp_path / "new.db") as snapshot:
        records = list(snapshot.records(EventFilter()))
        assert {record.agent_id for record in records} == {"ann"}
        assert snapshot.last_seq() == 26
        assert verify(snapshot.connection).bad_seq is None


def without_line(number: int) -> Change:
    return lambda lines: lines[:number] + lines[number + 1 :]


def with_header(**given: Any) -> Change:
    def change(lines: list[bytes]) -> list[bytes]:
        return [json.dumps(json.loads(lines[0]) | given).encode() + b"\n", *lines[1:]]

    return change


def sealed(change: Change) -> Change:
    """Have the digest be that of the changed lines, as a forger would."""

    def changed(lines: list[bytes]) -> list[bytes]:
        *rows, last = change(lines)
        end = json.loads(last) | {"sha256": sha256(b"".join(rows)).hexdigest()}
        return [*rows, json.dumps(end).encode() + b"\n"]

    return changed


NEWER = len(migrations()) + 1


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        pytest.param(lambda lines: [], "export_invalid", "line 1: no header", id="nothing"),
        pytest.param(
            lambda lines: [b"\x89PNG\r\n\x1a\n"],
            "export_invalid",
            "line 1: no header",
            id="a picture",
        ),
        pytest.param(without_line(0), "export_invalid", "line 1: no header", id="no header"),
        pytest.param(lambda lines: lines[:1], "export_invalid", "ends here", id="only a header"),
        pytest.param(
            lambda lines: lines[:10], "export_invalid", "line 10: the export ends", id="cut off"
        ),
        pytest.param(
            lambda lines: [*lines[:9], lines[9][:-20]],
            "export_invalid",
            "line 10: the export ends",
            id="cut off within a line",
        ),
        pytest.param(
            lambda lines: [*lines[:4], b"garbage\n", *lines[5:]],
            "export_invalid",
            "line 5: JSON is malformed",
            id="garbage",
        ),
        pytest.param(
            lambda lines: [*lines[:4], b'"\xff"\n', *lines[5:]],
            "export_invalid",
            "line 5: ",
            id="no UTF-8",
        ),
        pytest.param(
            lambda lines: [*lines[:4], b'{"table":"rules","name":"x"}\n', *lines[5:]],
            "export_invalid",
            "line 5: Invalid value 'rules'",
            id="a row of what acts",
        ),
        pytest.param(
            lambda lines: [*lines[:4], lines[4], *lines[4:]],
            "export_invalid",
            "one of them does not fit the log: UNIQUE",
            id="a row twice",
        ),
        pytest.param(
            without_line(3), "export_invalid", "rows were exported", id="a line is missing"
        ),
        pytest.param(
            lambda lines: [line.replace(b"begin", b"begun") for line in lines],
            "export_invalid",
            "not those that were exported",
            id="changed",
        ),
        pytest.param(
            lambda lines: [*lines, lines[3]], "export_invalid", "more behind the end", id="too long"
        ),
        pytest.param(
            sealed(lambda lines: [line.replace(b"begin", b"begun") for line in lines]),
            "export_invalid",
            "event 6: it, or the outcome of event 4, is not what was written",
            id="changed by a forger who knows no hashes",
        ),
        pytest.param(
            with_header(version=2), "export_version", "version 2 and schema", id="another version"
        ),
        pytest.param(
            with_header(schema=NEWER), "export_version", f"schema {NEWER}", id="a newer schema"
        ),
        pytest.param(with_header(schema=0), "export_version", "schema 0", id="no schema"),
    ],
)
def test_what_is_no_export_leaves_nothing(
    night: Path, tmp_path: Path, change: Change, code: str, message: str
) -> None:
    with pytest.raises(KsiError, match=message) as caught:
        restored(change(dumped(night)), tmp_path / "new.db")
    assert caught.value.code == code
    assert list(tmp_path.iterdir()) == []


def test_a_log_is_never_overwritten(night: Path, tmp_path: Path) -> None:
    (tmp_path / "new.db").write_bytes(b"mine")
    with pytest.raises(Conflict, match="exists"):
        restored(dumped(night), tmp_path / "new.db")
    assert (tmp_path / "new.db").read_bytes() == b"mine"


def test_an_export_of_an_older_schema_is_brought_up_to_date(night: Path, tmp_path: Path) -> None:
    """Before the chain: no hashes, and outcomes that do not say when they were written."""
    first, *rows, last = [json.loads(line) for line in dumped(night)]
    kept = [
        {name: value for name, value in row.items() if name not in ("hash", "at")}
        for row in rows
        if row["table"] in ("events", "outcomes")
    ]
    counts = {name: last["rows"][name] for name in ("events", "outcomes")}
    before = [json.dumps(each).encode() + b"\n" for each in [first | {"schema": 5}, *kept]]
    digest = sha256(b"".join(before)).hexdigest()
    end = json.dumps({"table": "end", "rows": counts, "sha256": digest}).encode() + b"\n"
    restored([*before, end], tmp_path / "new.db")
    assert [path.name for path in tmp_path.iterdir()] == ["new.db"]
    with Snapshot.open(tmp_path / "new.db") as snapshot:
        assert len(list(snapshot.records(EventFilter()))) == 26
