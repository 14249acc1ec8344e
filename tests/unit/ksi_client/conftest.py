"""Sockets with short paths, and a daemon that does as it is told."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ksi_client.cli import cli
from ksi_client.testing import StubDaemon


@pytest.fixture
def run_dir() -> Iterator[Path]:
    """A directory whose path leaves room for a socket's; pytest's own may be too long."""
    with tempfile.TemporaryDirectory(prefix="ksi") as directory:
        yield Path(directory)


@pytest.fixture
def stub(run_dir: Path) -> Iterator[StubDaemon]:
    with StubDaemon(run_dir / "s", {"state:get": {"value": 7, "version": 1}}) as daemon:
        yield daemon


@pytest.fixture
def utc() -> Iterator[None]:
    """Times are shown in local time; here that is UTC."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def ksi(stub: StubDaemon, utc: None) -> Callable[..., Result]:
    """``ksi`` with the given words, in this process, against the stub."""

    def run(*words: str, stdin: str | None = None, text: bool = True) -> Result:
        form = "--text" if text else "--json"
        given = ["--socket", stub.path, form, *words]
        return CliRunner().invoke(cli, given, input=stdin, env={"COLUMNS": "100"})

    return run
