"""Programs of others that `make node` installs, for the tests that speak to them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

import pytest

MODULES: Final = Path(__file__).parent / "node" / "node_modules"
BIN: Final = MODULES / ".bin"


def node() -> str:
    """Return the path of a newer node than Debian's; skip the test without it, but never in CI."""
    # Not from BIN: older versions of npm put no link there.
    found = next(MODULES.glob("node-linux-*/bin/node"), None)
    return str(found) if found is not None else program("node")


def program(name: str) -> str:
    """Return the path of *name*; skip the test without it, but never in CI."""
    path = BIN / name
    if path.exists() and shutil.which("node"):
        return str(path)
    if os.environ.get("TESTS_NEED_NODE"):
        pytest.fail(f"{name} is not installed: make node")
    pytest.skip(f"{name} is not installed: make node")
