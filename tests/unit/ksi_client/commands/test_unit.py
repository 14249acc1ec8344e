"""``ksi unit``: what is printed, and where it is put."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result


def test_the_units_are_printed(ksi: Callable[..., Result]) -> None:
    result = ksi("unit", "--text", "--var", "/srv/k v")
    assert result.exit_code == 0
    assert f"ExecStart={sys.executable} -m ksi_daemon --var '/srv/k v'\n" in result.stdout
    assert "ListenStream=/srv/k v/run/daemon.sock\n" in result.stdout


def test_the_units_are_put_where_systemd_looks(
    ksi: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    result = ksi("unit", "--install", "--json")
    written = [Path(path) for path in json.loads(result.stdout)["written"]]
    assert {path.parent for path in written} == {tmp_path / "systemd" / "user"}
    assert {path.name for path in written} == {"ksi.service", "ksi.socket"}
    assert "Type=notify" in written[0].read_text(encoding="utf-8")


def test_where_nothing_can_be_written(
    ksi: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "systemd").write_text("a file", encoding="utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    result = ksi("unit", "--install")
    assert result.exit_code == 1
    assert "cannot_create" in result.stderr
