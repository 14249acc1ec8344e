"""A var directory for daemons of this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ksi_daemon.testing import short_directory


@pytest.fixture
def var() -> Iterator[Path]:
    with short_directory() as path:
        yield path
