"""Checks of what ksi runs on."""

from __future__ import annotations

import platform
import sqlite3
import sys
from collections.abc import Iterator
from typing import Final

from ksi_client.doctor.finding import Finding
from ksi_client.doctor.patient import Patient

__all__ = ["python", "sqlite"]

PYTHON: Final = (3, 11)
# The first with STRICT tables.
SQLITE: Final = (3, 37, 0)


def python(patient: Patient) -> Iterator[Finding]:
    """Python is one that ksi is made for."""
    if sys.version_info < PYTHON:
        yield Finding("python", "fail", f"{platform.python_version()}, needed is 3.11 or newer")
    else:
        yield Finding("python", "ok", platform.python_version())


def sqlite(patient: Patient) -> Iterator[Finding]:
    """SQLite has what the log needs."""
    if sqlite3.sqlite_version_info < SQLITE:
        needed = ".".join(map(str, SQLITE))
        text = f"{sqlite3.sqlite_version}, needed is {needed} or newer"
        yield Finding("sqlite", "fail", text, "use a Python that is built with a newer SQLite")
    else:
        yield Finding("sqlite", "ok", sqlite3.sqlite_version)
