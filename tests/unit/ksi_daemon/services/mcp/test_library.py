"""The package mcp: it is not there, or not until it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ksi_daemon.errors import KsiError
from ksi_daemon.services.mcp import library


def test_without_the_package_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ksi_daemon.services.mcp.connection", None)
    with pytest.raises(KsiError, match="need the package mcp") as caught:
        library.load()
    assert (caught.value.code, caught.value.hint) == ("extra_missing", "pip install 'mcp>=2.3,<3'")


def test_a_daemon_without_servers_does_not_import_it() -> None:
    script = "import sys, ksi_daemon.daemon; print('mcp' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
