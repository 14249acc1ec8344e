"""Disks that fail, fill up, lose power and may not be written (FAULTS 3.1)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ksi_daemon.testing import short_directory
from tests.faults.harness import (
    PATIENCE_S,
    ROOT,
    Daemon,
    Load,
    missing,
    needs,
    on_tmpfs,
    refused,
    rounds,
    sound,
    until,
)

pytestmark = pytest.mark.faults


@pytest.fixture
def directory() -> Iterator[Path]:
    with short_directory() as made:
        yield made


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of run-time files as a first run has left it."""
    var = tmp_path_factory.mktemp("t") / "v"
    with short_directory() as short:
        with Daemon(short / "v") as daemon:
            assert daemon.stop() == 0
        shutil.copytree(short / "v", var)
    return var


# -- D2: power -----------------------------------------------------------------------------------


def image(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(64 * 1024 * 1024)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(path)], check=True, capture_output=True)


def can_mount(path: Path) -> str | None:
    """Return why an image cannot be mounted here, None if it can."""
    image(path)
    script = 'mount -o loop "$0" "$1"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, str(path), str(path.parent)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return None if done.returncode == 0 else done.stderr.strip()


def after_a_power_cut(directory: Path, durability: str) -> dict[str, Any]:
    """Return the marks that were acknowledged, and what a log holds when the power is back.

    The disk is a file. What the daemon had flushed is in it, the rest is in the kernel's memory:
    a copy of the file is the disk after the cut. The daemon stands still while it is made.
    """
    disk, cut, point = directory / "disk", directory / "cut", directory / "m"
    image(disk)
    point.mkdir(exist_ok=True)
    mounted = 'mount -o loop "$0" "$1" && shift && exec "$@"'
    prefix = ["unshare", "-m", "sh", "-c", mounted, str(disk), str(point)]
    load = Load()
    flags = ("--durability", durability)
    with Daemon(point / "v", *flags, prefix=prefix, below=str(point)) as daemon:
        assert daemon.is_ready, daemon.said
        emitting = threading.Thread(
            target=load.emit, args=(daemon.socket, (f"k{number}" for number in range(100_000)))
        )
        emitting.start()
        until(lambda: len(load.acked) > 1_000)
        daemon.process.send_signal(signal.SIGSTOP)
        # Of what is still on its way the client has an ack too: it was sent before the cut.
        until(lambda: _stands_still(load))
        shutil.copyfile(disk, cut)
        acked = dict(load.acked)
        daemon.kill()
        emitting.join(PATIENCE_S)
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", mounted, str(cut), str(point), sys.executable, "-m",
         "tests.faults.check", str(point / "v" / "events.db")],
        capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    # A log of which nothing was flushed may not even have its tables.
    found = json.loads(done.stdout) if done.returncode == 0 else {"sound": False, "kept": {}}
    lost = {key for key, seq in acked.items() if found["kept"].get(key) != seq}
    return {"acked": len(acked), "lost": len(lost), "sound": found["sound"]}


def _stands_still(load: Load) -> bool:
    before = len(load.acked)
    threading.Event().wait(0.05)
    return len(load.acked) == before


def test_D2_power_cut(directory: Path) -> None:
    needs("unshare", "mount", "mkfs.ext4", "losetup")
    why = can_mount(directory / "try")
    if why:
        pytest.skip(f"needs loop mounts, and here: {why}; run it on a machine that has them")
    for _ in range(rounds(2)):
        found = after_a_power_cut(directory, "power")
        assert found["acked"] > 1_000
        assert (found["lost"], found["sound"]) == (0, True)


def test_D2_a_power_cut_loses_what_is_not_flushed(directory: Path) -> None:
    """The test of the test: durability "process" does not survive it."""
    needs("unshare", "mount", "mkfs.ext4", "losetup")
    why = can_mount(directory / "try")
    if why:
        pytest.skip(f"needs loop mounts, and here: {why}; run it on a machine that has them")
    assert after_a_power_cut(directory, "process")["lost"] > 0


# -- D3: errors of the disk ----------------------------------------------------------------------


def failing(calls: str, what: str) -> list[str]:
    """Return what runs a program of whose *calls* one fails; each thread counts its own."""
    return [
        "strace", "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null",
        "-e", f"trace={calls}", "-e", f"inject={calls}:{what}",
    ]  # fmt: skip


def nth(short: list[int]) -> list[int]:
    return short if rounds(0) == 0 else list(range(1, 41))


def one_by_one(daemon: Daemon, load: Load, count: int = 40) -> None:
    for number in range(count):
        if daemon.process.poll() is not None:
            return
        load.emit(daemon.socket, [f"k{number}"])


# The writer's second sync is that of the directory, which SQLite does not wait for; ksi does.
SYNCS = [("fsync,fdatasync", when) for when in nth([1, 3, 5, 12]) if when != 2]
WRITES = [("pwrite64", when) for when in nth([1, 2, 5, 12])]


@pytest.mark.parametrize(("calls", "when"), [*SYNCS, *WRITES])
def test_D3_a_write_or_a_sync_fails(directory: Path, template: Path, calls: str, when: int) -> None:
    """Whichever it is: no ack for what it was about, none later, exit 74, nothing acked lost."""
    needs("strace", root=False)
    var, load = directory / "v", Load()
    shutil.copytree(template, var)
    prefix = failing(calls, f"error=EIO:when={when}")
    with Daemon(var, prefix=prefix) as daemon:
        if daemon.is_ready:
            one_by_one(daemon, load)
            code = daemon.process.wait(PATIENCE_S)
            said = daemon.said
        else:
            code, said = refused(daemon)
    assert code in ({74} if daemon.is_ready else {73, 74}), said
    assert "Traceback" not in said
    assert {error["code"] for error in load.errors} <= {"storage_failed", "shutting_down"}
    assert not any(error["retryable"] for error in load.errors)
    assert not load.acked_after_error
    with Daemon(var) as daemon:
        assert daemon.is_ready, daemon.said
        assert daemon.stop() == 0
    assert missing(var / "events.db", load.acked) == {}
    assert sound(var / "events.db")


@pytest.mark.parametrize("when", nth([3, 7]))
def test_D4_a_write_finds_no_space_once(directory: Path, template: Path, when: int) -> None:
    needs("strace", root=False)
    var, load = directory / "v", Load()
    shutil.copytree(template, var)
    with Daemon(var, prefix=failing("pwrite64", f"error=ENOSPC:when={when}")) as daemon:
        if daemon.is_ready:
            one_by_one(daemon, load)
            assert daemon.process.poll() is None
            assert len(load.acked) + len(load.errors) == 40
            assert len(load.acked) >= 38
            os.killpg(daemon.process.pid, signal.SIGTERM)
            daemon.process.wait(PATIENCE_S)
    assert {error["code"] for error in load.errors} <= {"storage_full"}
    assert missing(var / "events.db", load.acked) == {}


# -- D4: a full disk -----------------------------------------------------------------------------


def fill(daemon: Daemon, load: Load, name: str) -> None:
    """Emit until the disk is full."""
    for number in range(1_000):
        load.emit(daemon.socket, [f"{name}{number}"], pad=20_000)
        if load.errors:
            return
    raise AssertionError("the disk was never full")


def test_D4_disk_full_and_free_again(directory: Path) -> None:
    needs("unshare", "mount")
    load, copy = Load(), directory / "copy"
    with on_tmpfs(directory / "m", "6m", then=f'cp -a "$0/v" {copy}') as daemon:
        assert daemon.is_ready, daemon.said
        ballast = daemon.seen.parent / "ballast"
        ballast.write_bytes(bytes(1_500_000))
        fill(daemon, load, "a")
        assert {error["code"] for error in load.errors} == {"storage_full"}
        assert load.errors[0]["retryable"] is True
        until(lambda: daemon.said.count("storage_full") == 1)
        with daemon.client() as ksi:
            assert ksi.request("system:health")["status"] == "ok"
            page = ksi.request("monitor:get_events", {"patterns": ["system:mark"], "limit": 5})
            assert len(page["events"]) == 5
            assert ksi.request("monitor:subscribe", {"patterns": ["*"]})
        full = len(load.errors)
        load.emit(daemon.socket, ["still full"])
        assert len(load.errors) == full + 1
        ballast.unlink()
        load.emit(daemon.socket, [f"b{number}" for number in range(20)])
        assert {key for key in load.acked if key.startswith("b")} == {f"b{n}" for n in range(20)}
        with daemon.client() as ksi:
            ksi.request("system:shutdown")
        assert daemon.process.wait(PATIENCE_S) == 0
    assert missing(copy / "events.db", load.acked) == {}
    assert sound(copy / "events.db")


def test_D4_a_daemon_on_a_full_disk_ends_in_good_order(directory: Path) -> None:
    needs("unshare", "mount")
    load, copy = Load(), directory / "copy"
    point = directory / "m"
    with on_tmpfs(point, "6m", then=f'cp -a "$0/v" {copy}') as daemon:
        fill(daemon, load, "a")
        with daemon.client() as ksi:
            ksi.request("system:shutdown")
        assert daemon.process.wait(PATIENCE_S) == 0
    assert not (copy / "events.db.reserve").exists()
    assert missing(copy / "events.db", load.acked) == {}
    assert sound(copy / "events.db")


# -- D5: a disk that is read-only ----------------------------------------------------------------


@pytest.mark.parametrize("there", ["a log", "nothing"])
def test_D5_var_is_read_only(directory: Path, template: Path, there: str) -> None:
    needs("unshare", "mount")
    point = directory / "m"
    point.mkdir()
    copied = f'cp -a {template} "$0/v" &&' if there == "a log" else ""
    script = (
        f'mount -t tmpfs -o size=4m tmpfs "$0" && {copied} mount -o remount,ro "$0" && exec "$@"'
    )
    prefix = ["unshare", "-m", "sh", "-c", script, str(point)]
    with Daemon(point / "v", prefix=prefix, below=str(point)) as daemon:
        code, said = refused(daemon)
    assert code in (73, 74)
    complaints = [line for line in said.splitlines() if line.startswith("ksi-daemon: ")]
    assert len(complaints) == 1
    assert str(point / "v") in complaints[0]
    assert "Traceback" not in said


# -- D10: older schemas --------------------------------------------------------------------------


@pytest.mark.parametrize("when", nth([2, 4, 8, 16]))
def test_D10_killed_while_it_brings_a_log_up_to_date(directory: Path, when: int) -> None:
    """The schema is the old one or the new one, never between, and the next start makes it new."""
    needs("strace", root=False)
    var = directory / "v"
    var.mkdir(mode=0o700)
    old = "from ksi_daemon.log.database import migrations; print(''.join(migrations()[:5]))"
    script = subprocess.run(
        [sys.executable, "-c", old], capture_output=True, text=True, cwd=ROOT, check=True
    ).stdout
    with closing(sqlite3.connect(var / "events.db")) as connection:
        connection.executescript(
            "PRAGMA auto_vacuum = 2; PRAGMA journal_mode = WAL; BEGIN;"
            f"{script}; PRAGMA application_id = {0x6B736930}; PRAGMA user_version = 5; COMMIT;"
        )
        connection.executemany(
            "INSERT INTO events (id, ts, name, data, source, correlation_id, hop, status)"
            " VALUES (?, 0, 'a:b', ?, 's', 'c', 0, 'handled')",
            ((f"e{number}", json.dumps({"x": "y" * 200})) for number in range(2_000)),
        )
        connection.commit()
    (var / "events.db").chmod(0o600)
    with Daemon(var, prefix=failing("pwrite64", f"signal=SIGKILL:when={when}")) as daemon:
        daemon.process.wait(PATIENCE_S) if not daemon.is_ready else daemon.kill()
    with closing(sqlite3.connect(var / "events.db")) as connection:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        has_anchor = connection.execute(
            "SELECT count(*) FROM sqlite_schema WHERE name = 'anchor'"
        ).fetchone()[0]
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert has_anchor == (version > 5)
    with Daemon(var) as daemon:
        assert daemon.is_ready, daemon.said
        load = Load()
        load.emit(daemon.socket, ["k1"])
        assert daemon.stop() == 0
    with closing(sqlite3.connect(var / "events.db")) as connection:
        [(old_rows,)] = connection.execute("SELECT count(*) FROM events WHERE name = 'a:b'")
    assert old_rows == 2_000
    assert missing(var / "events.db", load.acked) == {}
    assert sound(var / "events.db")
