"""The chain of a real log, after somebody has changed the file behind its back."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ksi_daemon.errors import StorageError
from ksi_daemon.events import Event, Outcome
from ksi_daemon.log import EventLog, verification
from ksi_daemon.log.chain import GENESIS, Head
from ksi_daemon.log.verification import check_tail, verify
from ksi_daemon.work import Ended, Work

NewEvent = Callable[..., Event]

TRIGGERS = (
    "events_unchanged", "events_kept", "outcomes_unchanged", "outcomes_kept", "anchor_follows",
)  # fmt: skip


async def fill(path: Path, new_event: NewEvent, count: int = 30) -> None:
    """Write events of both shapes; each third one ends after the one behind it was written."""
    async with EventLog.open(path, durability="process") as log:
        for number in range(1, count + 1):
            agent = "ann" if number % 2 else None
            await log.submit(Work(event=new_event(data={"n": number}, agent_id=agent)))
            if number % 3 == 0:
                await log.submit(Work(ended=Ended(number - 1, Outcome("handled"))))
                await log.submit(Work(ended=Ended(number - 2, Outcome("failed"))))


def tampered(path: Path, *sql: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for trigger in TRIGGERS:
            connection.execute(f"DROP TRIGGER {trigger}")
        for statement in sql:
            connection.execute(statement)


def flip_bit(path: Path, text: bytes) -> None:
    raw = path.read_bytes()
    at = raw.index(text) + len(text) // 2
    path.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])


async def test_a_sound_log(path: Path, new_event: NewEvent) -> None:
    await fill(path, new_event)
    with closing(sqlite3.connect(path)) as connection:
        found = verify(connection)
        newest = connection.execute("SELECT hash FROM events WHERE seq = 30").fetchone()[0]
        check_tail(connection)
    assert (found.events, found.after_seq, found.seq, found.bad_seq) == (30, 0, 30, None)
    # The two outcomes after the newest event are covered when the next event comes.
    assert (found.outcomes, found.hash) == (18, newest.hex())


async def test_an_empty_log(path: Path) -> None:
    async with EventLog.open(path, durability="process"):
        pass
    with closing(sqlite3.connect(path)) as connection:
        found = verify(connection)
    assert (found.events, found.seq, found.hash, found.bad_seq) == (0, 0, GENESIS.hex(), None)


@pytest.mark.parametrize("window", [1, 7, 1_000])
async def test_windows_and_restarts_change_nothing(
    path: Path, new_event: NewEvent, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    monkeypatch.setattr(verification, "WINDOW", window)
    await fill(path, new_event)
    async with EventLog.open(path, durability="process") as log:
        await log.submit(Work(event=new_event()))
    seen: list[tuple[int, int]] = []
    with closing(sqlite3.connect(path)) as connection:
        found = verify(connection, on_progress=lambda seq, newest: seen.append((seq, newest)))
    assert (found.events, found.outcomes, found.bad_seq) == (31, 20, None)
    assert seen[-1] == (31, 31)


WRITTEN = "it is not what was written"


@pytest.mark.parametrize(
    ("sql", "bad", "why"),
    [
        pytest.param(
            ["UPDATE events SET data = '{\"n\":99}' WHERE seq = 12"], 12, WRITTEN, id="data"
        ),
        pytest.param(["UPDATE events SET ts = ts + 1 WHERE seq = 2"], 2, WRITTEN, id="time"),
        pytest.param(
            ["UPDATE events SET idem_key = 'k', idem_scope = '' WHERE seq = 12"],
            12,
            WRITTEN,
            id="a column that was empty",
        ),
        pytest.param(
            ["UPDATE events SET hash = NULL WHERE seq = 9"], 9, "it has no hash", id="hash"
        ),
        pytest.param(["DELETE FROM events WHERE seq = 12"], 12, "it is missing", id="deleted"),
        pytest.param(["DELETE FROM events WHERE seq <= 2"], 1, "it is missing", id="the oldest"),
        pytest.param(["DELETE FROM events WHERE seq >= 29"], 29, "it is missing", id="the newest"),
        pytest.param(
            ["UPDATE outcomes SET status = 'handled' WHERE seq = 10"],
            13,
            "it, or the outcome of event 10, 11, is not what was written",
            id="outcome",
        ),
        pytest.param(
            ["DELETE FROM outcomes WHERE seq = 10"],
            13,
            "it, or the outcome of event 11, is not what was written",
            id="outcome deleted",
        ),
        pytest.param(
            ["DELETE FROM outcomes WHERE at = 12"], 13, WRITTEN, id="all outcomes deleted"
        ),
        pytest.param(
            ["UPDATE anchor SET seq = 5, hash = zeroblob(32)"],
            6,
            WRITTEN,
            id="an anchor that is not the chain's",
        ),
    ],
)
async def test_D9_the_first_bad_event_is_named(
    path: Path, new_event: NewEvent, sql: list[str], bad: int, why: str
) -> None:
    await fill(path, new_event)
    tampered(path, *sql)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        found = verify(connection)
        with pytest.raises(StorageError, match=f"damaged at event {bad}: {why}"):
            check_tail(connection)
    assert (found.bad_seq, found.why, found.seq) == (bad, why, bad - 1)


async def test_D9_a_flipped_bit_in_the_file(path: Path, new_event: NewEvent) -> None:
    await fill(path, new_event)
    flip_bit(path, b'{"n":17}')
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert verify(connection).bad_seq == 17


async def test_a_later_head_is_believed(path: Path, new_event: NewEvent) -> None:
    await fill(path, new_event)
    tampered(path, "UPDATE events SET data = '{}' WHERE seq = 12")
    with closing(sqlite3.connect(path)) as connection:
        row = connection.execute("SELECT seq, hash FROM events WHERE seq = 12").fetchone()
        assert verify(connection, Head(*row)).bad_seq is None


async def test_a_start_checks_the_newest_events(
    path: Path, new_event: NewEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "TAIL", 10)
    await fill(path, new_event)
    tampered(path, "UPDATE events SET data = '{}' WHERE seq = 12")
    async with EventLog.open(path, durability="process"):
        pass
    tampered_again = "UPDATE events SET data = '{}' WHERE seq = 25"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(tampered_again)
    with pytest.raises(StorageError, match="damaged at event 25") as caught:
        async with EventLog.open(path, durability="process"):
            pass
    assert "ksi log repair" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        pytest.param("UPDATE events SET data = '{}'", "events are never changed", id="change"),
        pytest.param("DELETE FROM events", "events are deleted by ksi log prune only", id="delete"),
        pytest.param("UPDATE outcomes SET ts = 0", "outcomes are never changed", id="change end"),
        pytest.param(
            "DELETE FROM outcomes", "outcomes are deleted by ksi log prune only", id="delete end"
        ),
        pytest.param("UPDATE anchor SET seq = 3", "only moves on", id="anchor without its hash"),
        pytest.param(
            "UPDATE anchor SET seq = 99, hash = zeroblob(32)", "only moves on", id="anchor nowhere"
        ),
        pytest.param("DELETE FROM anchor", "the anchor stays", id="no anchor"),
    ],
)
async def test_rows_are_appended_only(
    path: Path, new_event: NewEvent, sql: str, message: str
) -> None:
    await fill(path, new_event, 6)
    with (
        closing(sqlite3.connect(path)) as connection,
        pytest.raises(sqlite3.IntegrityError, match=message),
    ):
        connection.execute(sql)


async def test_the_text_log_has_a_head_each_thousand_events(
    path: Path, new_event: NewEvent, capsys: pytest.CaptureFixture[str]
) -> None:
    async with EventLog.open(path, durability="process") as log:
        futures = [log.submit(Work(event=new_event())) for _ in range(2_500)]
        for future in futures:
            await future
    told = [line for line in capsys.readouterr().out.splitlines() if "log_head" in line]
    assert len(told) == 3
    with closing(sqlite3.connect(path)) as connection:
        newest = connection.execute("SELECT hash FROM events WHERE seq = 2500").fetchone()[0]
    assert "seq=2500" in told[-1]
    assert newest.hex() in told[-1]
