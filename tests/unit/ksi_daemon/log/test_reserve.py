from __future__ import annotations

import os
from pathlib import Path

import pytest

from ksi_daemon.log.reserve import RESERVE_BYTES, Reserve


def test_space_is_taken_given_up_and_taken_back(path: Path) -> None:
    reserve = Reserve(path)
    file = path.with_name("events.db.reserve")
    assert reserve.possible
    assert file.stat().st_blocks * 512 >= RESERVE_BYTES
    assert file.stat().st_mode & 0o777 == 0o600
    reserve.give_up()
    reserve.give_up()
    assert not file.exists()
    assert reserve.take_back()
    assert file.stat().st_size == RESERVE_BYTES
    assert file.stat().st_blocks * 512 >= RESERVE_BYTES


def test_what_a_killed_daemon_left_is_taken_over(path: Path) -> None:
    Reserve(path)
    assert Reserve(path).possible


def test_no_room(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", refuse)
    assert not Reserve(path).possible
    assert not path.with_name("events.db.reserve").exists()


def test_nowhere(tmp_path: Path) -> None:
    assert not Reserve(tmp_path / "nowhere" / "events.db").possible


def test_what_was_given_up_is_not_enough_to_take_it_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = Reserve(path)
    reserve.give_up()
    room = RESERVE_BYTES + 4096
    real = os.posix_fallocate

    def allocate(descriptor: int, offset: int, size: int) -> None:
        if size > room:
            raise OSError(28, "No space left on device")
        real(descriptor, offset, size)

    monkeypatch.setattr("os.posix_fallocate", allocate)
    assert not reserve.take_back()
    room = 3 * RESERVE_BYTES
    assert reserve.take_back()
