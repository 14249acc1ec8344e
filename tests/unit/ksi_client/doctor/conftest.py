from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ksi_client.doctor import Finding, Patient, examine
from ksi_daemon.testing import short_directory

Examined = Callable[..., dict[str, Finding]]


@pytest.fixture
def var(night: Path) -> Iterator[Path]:
    """A directory in good order, without a daemon."""
    with short_directory() as directory:
        path = directory / "v"
        (path / "run").mkdir(parents=True, mode=0o700)
        path.chmod(0o700)
        shutil.copy(night, path / "events.db")
        (path / "events.db").chmod(0o600)
        (path / "components").mkdir()
        (path / "components" / "good.md").write_text("You work.\n")
        yield path


@pytest.fixture
def examined(var: Path) -> Examined:
    """Examine the directory; the finding of each check that is worst."""

    def run(**given: Any) -> dict[str, Finding]:
        environ = {"KSI_COMPONENTS": str(var / "components"), **given.pop("environ", {})}
        socket = given.pop("socket", var / "run" / "daemon.sock")
        patient = Patient(given.pop("var", var), socket, environ=environ, patience_s=0.2, **given)
        order = ["ok", "warn", "fail"]
        found: dict[str, Finding] = {}
        for each in examine(patient):
            known = found.get(each.check)
            if known is None or order.index(each.level) > order.index(known.level):
                found[each.check] = each
        return found

    return run
