from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ksi_client.text import Paint
from ksi_client.views import upkeep
from ksi_daemon.log.backup import Copied
from ksi_daemon.log.salvage import Repaired
from ksi_daemon.log.size import Day, LogSize, Share
from ksi_daemon.log.verification import Verdict

PLAIN = Paint(False)
SIZE = LogSize(
    path="/v/events.db",
    bytes=3 * 1024 * 1024,
    wal_bytes=512,
    free_bytes=2048,
    events=7,
    first_seq=4,
    last_seq=10,
    names=[Share("agent:send", 4, 1500), *(Share(f"a:n{n}", 1, 1) for n in range(12))],
    agents=[Share("", 7, 1512)],
    days=[Day("2026-06-09", 7, 1512)],
    retention_days=30,
    retention_bytes=4 * 1024**3,
    due=0,
    over_bytes=0,
)


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        pytest.param(
            Verdict(1_200, 3, 0, 1_200, "ab"),
            ["✓ sound  1,200 events and 3 outcomes from the first on", "head  #1200  ab"],
            id="sound",
        ),
        pytest.param(
            Verdict(2, 0, 40, 42, "ab"),
            ["✓ sound  2 events and 0 outcomes after #40", "head  #42  ab"],
            id="pruned",
        ),
        pytest.param(
            Verdict(2, 0, 0, 2, "ab", 3, "it is missing"),
            [
                "✗ damaged at event #3: it is missing",
                "sound before it: 2 events and 0 outcomes from the first on",
            ],
            id="damaged",
        ),
    ],
)
def test_verdict(found: Verdict, lines: list[str]) -> None:
    assert list(upkeep.verdict(found, PLAIN)) == lines


def test_copied() -> None:
    found = Copied("/b/copy.db", 5, 9, "ab", 10 * 1024, kept="/v/old.db")
    assert list(upkeep.copied(found)) == [
        "/b/copy.db  up to #9, 10.0 KiB, checked",
        "head  #9  ab",
        "the log that was there: /v/old.db",
    ]


@pytest.mark.parametrize(
    ("found", "line"),
    [
        pytest.param({"would_delete": 1_200}, "1,200 events would be deleted", id="dry run"),
        pytest.param({"events": 0}, "nothing to delete", id="nothing"),
        pytest.param(
            {"events": 3, "through_seq": 7, "bytes": 0}, "deleted 3 events, up to #7", id="few"
        ),
        pytest.param(
            {"events": 3_000, "through_seq": 7, "bytes": 5_000},
            "deleted 3,000 events, up to #7; the file is 4.9 KiB smaller",
            id="many",
        ),
    ],
)
def test_pruned(found: dict[str, Any], line: str) -> None:
    assert list(upkeep.pruned(found)) == [line]


def test_repaired() -> None:
    found = Repaired("/v/e.db", "/v/e.db.damaged.1", {"events": 1_500, "state": 0}, 12, 1_512)
    assert list(upkeep.repaired(found)) == [
        "saved: 1,500 events",
        "lost: 12 events that are known of, up to #1512",
        "the damaged log is kept: /v/e.db.damaged.1",
        "what was saved cannot be verified any more; the chain begins anew behind it",
    ]


def test_size() -> None:
    lines = list(upkeep.size(SIZE, PLAIN, 80))
    assert lines[:2] == [
        "/v/events.db  3.0 MiB  (free in it 2.0 KiB, WAL 512 B)",
        "7 events, #4 to #10",
    ]
    assert "agent:send       4  1.5 KiB" in lines
    assert "and 1 more" in lines
    assert "(none)       7  1.5 KiB" in lines
    assert "2026-06-09       7  1.5 KiB" in lines


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        pytest.param(
            {},
            [
                "retention_days = 30: 0 events are older and will be deleted",
                "retention_bytes = 4.0 GiB: there is room",
            ],
            id="room",
        ),
        pytest.param(
            {"retention_days": 0, "retention_bytes": 0},
            [
                "retention_days = 0: events do not grow too old",
                "retention_bytes = 0: the log may grow as large as it will",
            ],
            id="no limits",
        ),
        pytest.param(
            {"due": 1_000, "over_bytes": 2048},
            [
                "retention_days = 30: 1,000 events are older and will be deleted",
                "retention_bytes = 4.0 GiB: 2.0 KiB too much, the oldest events will be deleted,"
                " but none of the last 24 hours",
            ],
            id="too much",
        ),
    ],
)
def test_what_retention_will_take(change: dict[str, Any], lines: list[str]) -> None:
    found = msgspec.structs.replace(SIZE, **change)
    assert list(upkeep.size(found, PLAIN, 80))[-2:] == lines
