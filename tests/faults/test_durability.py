"""What was acknowledged is there, whatever happens to the process and to its files (FAULTS 3.1)."""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ksi_daemon.testing import short_directory
from tests.faults.harness import (
    ROOT,
    Daemon,
    Load,
    kept,
    missing,
    needs,
    rounds,
    some,
    sound,
    until,
)

pytestmark = pytest.mark.faults


@pytest.fixture
def var() -> Iterator[Path]:
    with short_directory() as directory:
        yield directory / "v"


def killed_at(daemon: Daemon, acks: int, chance: random.Random) -> Callable[[int], None]:
    """Return what kills *daemon* a moment after so many acknowledgements."""

    def on_ack(count: int) -> None:
        if count >= acks and daemon.process.poll() is None:
            time.sleep(chance.random() * 0.003)
            daemon.kill()

    return on_ack


def test_D1_kill_9_at_any_moment(var: Path) -> None:
    """25 rounds and 10,000 emits in `make soak`; here a part of that."""
    count = rounds(5)
    chance, load = random.Random(7), Load()
    keys = [f"k{number}" for number in range(400 * count)]
    for _ in range(count):
        with Daemon(var) as daemon:
            before = dict(load.acked)
            again = some(list(before), 20, chance)
            load.emit(daemon.socket, again)
            assert load.duplicates >= set(again)
            assert load.acked == before
            left = [key for key in keys if key not in load.acked]
            chance.shuffle(left)
            target = len(load.acked) + chance.randrange(1, 800)
            load.emit(daemon.socket, left, on_ack=killed_at(daemon, target, chance))
            daemon.kill()
        assert missing(var / "events.db", load.acked) == {}
    with Daemon(var) as daemon:
        load.emit(daemon.socket, [key for key in keys if key not in load.acked])
        assert daemon.stop() == 0
    assert load.errors == []
    assert missing(var / "events.db", load.acked) == {}
    assert set(kept(var / "events.db")) == set(keys) == set(load.acked)
    assert sound(var / "events.db")


def test_D1_an_ack_before_the_commit_is_found_out(var: Path) -> None:
    """The test of the test."""
    chance, load = random.Random(7), Load()
    with Daemon(var, module=("tests.faults.mutants", "ack_before_commit")) as daemon:
        keys = [f"k{number}" for number in range(5_000)]
        load.emit(daemon.socket, keys, on_ack=killed_at(daemon, 1_000, chance))
        daemon.kill()
    assert missing(var / "events.db", load.acked) != {}


def test_D6_another_process_holds_the_lock(var: Path) -> None:
    with (
        Daemon(var) as daemon,
        daemon.client() as ksi,
        closing(sqlite3.connect(var / "events.db", isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        load = Load()
        emitting = threading.Thread(target=load.emit, args=(daemon.socket, ["k1"]))
        emitting.start()
        answers = 0
        while emitting.is_alive():
            assert ksi.request("system:health")["status"] == "ok"
            answers += 1
        assert answers > 100
        [error] = load.errors
        assert (error["code"], error["retryable"]) == ("storage_busy", True)
        other.execute("ROLLBACK")
        load.emit(daemon.socket, ["k1"])
        assert load.acked.keys() == {"k1"}


def test_D7_another_process_reads_for_long(var: Path) -> None:
    keys = [f"k{number}" for number in range(1_100)]
    with (
        Daemon(var, "--durability", "process") as daemon,
        daemon.client() as ksi,
        closing(sqlite3.connect(var / "events.db", isolation_level=None)) as other,
    ):
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM events").fetchone()
        load = Load()
        load.emit(daemon.socket, keys, pad=64_000)
        assert len(load.acked) == len(keys)
        assert ksi.request("system:health")["writer"]["wal_bytes"] > 64 * 1024 * 1024
        until(lambda: "wal_large" in daemon.said)
        assert other.execute("SELECT count(*) FROM events").fetchone() == (1,)
        other.execute("ROLLBACK")
        load.emit(daemon.socket, ["last"])
        until(lambda: ksi.request("system:health")["writer"]["wal_bytes"] == 0)
        assert daemon.stop() == 0
    assert sound(var / "events.db")


def unlinked(log: Path) -> None:
    log.unlink()


def renamed(log: Path) -> None:
    log.rename(log.with_name("other.db"))


def replaced(log: Path) -> None:
    shutil.copyfile(log, log.with_name("new.db"))
    log.with_name("new.db").rename(log)


def wal_unlinked(log: Path) -> None:
    log.with_name("events.db-wal").unlink()


@pytest.mark.parametrize("lose", [unlinked, renamed, replaced, wal_unlinked])
def test_D12_the_file_is_lost_while_it_is_open(var: Path, lose: Callable[[Path], None]) -> None:
    with Daemon(var) as daemon:
        load = Load()
        load.emit(daemon.socket, ["k1"])
        lose(var / "events.db")
        daemon.process.wait(10)
        assert daemon.process.returncode == 74
        assert "removed or replaced" in daemon.said
        assert not daemon.socket.exists()


def test_D12_no_ack_after_the_loss_is_noticed(var: Path) -> None:
    """Under load, where the files are looked at between commits."""
    keys = (f"k{number}" for number in range(1_000_000))
    with Daemon(var) as daemon:
        load = Load()

        def on_ack(count: int) -> None:
            if count == 500:
                (var / "events.db").unlink()

        load.emit(daemon.socket, keys, on_ack=on_ack)
        assert daemon.process.wait(10) == 74
    assert {error["code"] for error in load.errors} <= {"storage_lost", "shutting_down"}
    assert not load.acked_after_error


def test_D13_a_long_log_starts_soon(var: Path) -> None:
    """300,000 rows in `make soak`. What a start has no time to check is checked behind it."""
    keys = [f"k{number}" for number in range(12_000 * rounds(1))]
    with Daemon(var, "--durability", "process") as daemon:
        Load().emit(daemon.socket, keys, in_flight=512)
        daemon.kill()
    with Daemon(var) as daemon, daemon.client() as ksi:
        assert ksi.request("system:health")["last_seq"] > len(keys)
        assert daemon.stop() == 0
    assert sound(var / "events.db")


def test_D14_pruning_under_load(var: Path) -> None:
    load, gone = Load(), []
    with Daemon(var) as daemon, daemon.client() as ksi:
        load.emit(daemon.socket, [f"old{number}" for number in range(2_000)], pad=500)
        before = datetime.now(UTC)
        emitting = threading.Thread(
            target=load.emit, args=(daemon.socket, [f"new{number}" for number in range(3_000)])
        )
        emitting.start()
        gone.append(ksi.request("log:prune", {"before": before.isoformat()}))
        emitting.join()
        assert daemon.stop() == 0
    assert load.errors == []
    found = kept(var / "events.db")
    assert not [key for key in found if key.startswith("old")]
    assert found == {key: seq for key, seq in load.acked.items() if key.startswith("new")}
    assert gone[0]["events"] >= 2_000
    assert sound(var / "events.db")


def test_D15_backups_and_a_restore_under_load(var: Path) -> None:
    load, copies = Load(), [var.with_name(f"copy{number}.db") for number in range(3)]
    with Daemon(var) as daemon:
        emitting = threading.Thread(
            target=load.emit, args=(daemon.socket, (f"k{number}" for number in range(20_000)))
        )
        emitting.start()
        for copy in copies:
            acked = dict(load.acked)
            done = _ksi("log", "backup", str(copy), "--var", str(var))
            assert done.returncode == 0, done.stderr
            assert missing(copy, acked) == {}
            assert sound(copy)
        emitting.join()
        assert daemon.stop() == 0
    assert load.errors == []
    assert _ksi("log", "restore", str(copies[1]), "--var", str(var)).returncode == 0
    assert kept(var / "events.db") == kept(copies[1])
    with Daemon(var) as daemon:
        load.emit(daemon.socket, ["after"])
        assert daemon.stop() == 0
    assert sound(var / "events.db")


def test_D17_the_clock_is_set(var: Path, tmp_path: Path) -> None:
    """An hour back and a day ahead while the daemon runs: order and timers do not move."""
    needs("faketime", root=False)
    clock = tmp_path / "clock"
    clock.write_text("+0s")
    library = subprocess.run(
        ["faketime", "-f", "+0s", "sh", "-c", "echo $LD_PRELOAD"], capture_output=True, text=True,
        check=True,
    ).stdout.strip()  # fmt: skip
    env = {
        "LD_PRELOAD": library,
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    with Daemon(var, env=env) as daemon, daemon.client() as ksi:
        timer = {"name": "tea", "after_s": 1.5, "target": "system:mark", "data": {"label": "tea"}}
        set_at = time.monotonic()
        ksi.request("timer:set", timer)
        seqs = []
        for offset in ("+0s", "-1h", "+1d", "+0s"):
            clock.write_text(offset)
            seqs.append(ksi.ask("system:mark", {"label": offset}).seq)
        page = ksi.request("monitor:get_events", {"patterns": ["system:mark"]})
        assert [each["data"]["label"] for each in page["events"]] == ["+0s", "-1h", "+1d", "+0s"]
        times = [datetime.fromisoformat(each["ts"]) for each in page["events"]]
        assert times[1] < times[0] < times[2] - timedelta(hours=20)
        for push in ksi.stream(["system:mark"], after_seq=seqs[-1]):
            if push.event is not None:
                break
        assert push.event.source == "timer:tea"
        assert time.monotonic() - set_at >= 1.5
        assert daemon.stop() == 0
    assert seqs == sorted(seqs)
    assert sound(var / "events.db")


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/New_York"])
def test_D18_the_zone_of_the_machine_is_nothing_to_the_log(var: Path, zone: str) -> None:
    with Daemon(var, env={"TZ": zone}) as daemon, daemon.client() as ksi:
        before = datetime.now(UTC)
        ksi.request("system:mark", {"label": "m"})
        [event] = ksi.request("monitor:get_events", {"patterns": ["system:mark"]})["events"]
        due = ksi.request("timer:set", {"name": "t", "after_s": 3600, "target": "system:mark"})
        assert daemon.stop() == 0
    for text, expected in ((event["ts"], before), (due["due"], before + timedelta(hours=1))):
        assert text.endswith("Z")
        assert abs(datetime.fromisoformat(text) - expected) < timedelta(minutes=1)
    with closing(sqlite3.connect(var / "events.db")) as connection:
        [(shown,)] = connection.execute("SELECT time FROM v_events WHERE event = 'system:mark'")
    assert shown == event["ts"]


def _ksi(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ksi_client", *words],
        capture_output=True, text=True, cwd=ROOT, timeout=60, check=False,
    )  # fmt: skip
