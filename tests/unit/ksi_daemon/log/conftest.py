from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ksi_daemon.events import Event, now

NewEvent = Callable[..., Event]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the log of the test is."""
    return tmp_path / "events.db"


@pytest.fixture
def new_event() -> NewEvent:
    """Make events that differ in their ids, e1, e2, ...; anything else can be given."""
    numbers = count(1)

    def make(name: str = "test:one", data: Any = None, **fields: Any) -> Event:
        event_id = fields.pop("id", f"e{next(numbers)}")
        given: dict[str, Any] = {
            "ts": now(),
            "data": data if isinstance(data, msgspec.Raw) else _raw(data),
            "source": "client:1000/1",
            "correlation_id": event_id,
            "status": "received",
        }
        return Event(id=event_id, name=name, **(given | fields))

    return make


@pytest.fixture
def outside(path: Path) -> Callable[..., list[tuple[Any, ...]]]:
    """Ask the log file by a connection of another program."""

    def ask(sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(path)) as connection:
            return connection.execute(sql, values).fetchall()

    return ask


def _raw(data: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode({} if data is None else data))
