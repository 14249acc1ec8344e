from __future__ import annotations

import subprocess
import sys

import pytest

from ksi_daemon.config import CONFIG_EXIT
from ksi_daemon.errors import UsageError
from ksi_daemon.transports.http.library import load


def test_without_the_package_the_door_cannot_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ksi_daemon.transports.http.serving", None)
    with pytest.raises(UsageError, match="http_port needs the package uvicorn") as caught:
        load()
    assert caught.value.exit_code == CONFIG_EXIT


def test_a_daemon_whose_doors_are_closed_imports_neither_package() -> None:
    code = (
        "import sys, ksi_daemon.daemon; print({'uvicorn', 'mcp', 'starlette'} & set(sys.modules))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert ended.stdout.strip() == "set()"
