from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ksi_daemon.errors import StorageError
from ksi_daemon.log.watch import FileWatch, wal_path


def unlink(path: Path) -> None:
    path.unlink()


def rename(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.replace(path)


@pytest.fixture
def files(path: Path) -> Path:
    path.write_bytes(b"database")
    wal_path(path).write_bytes(b"wal")
    return path


def test_nothing_happened(files: Path) -> None:
    watch = FileWatch(files)
    files.write_bytes(b"more of it")
    wal_path(files).write_bytes(b"")
    watch.check()


@pytest.mark.parametrize("which", ["events.db", "events.db-wal"])
@pytest.mark.parametrize("change", [unlink, rename, replace])
def test_lost(files: Path, which: str, change: Callable[[Path], None]) -> None:
    watch, lost = FileWatch(files), files.with_name(which)
    change(lost)
    with pytest.raises(StorageError) as caught:
        watch.check()
    assert caught.value.code == "storage_lost"
    assert caught.value.message == f"{str(lost)!r} was removed or replaced while it was open"
