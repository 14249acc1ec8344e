"""What conditions and mappings see of an event: its fields, reached by paths. Pure.

A path is a field of the event and then keys, with dots between: ``source``, ``data.task.owner``,
``data.items.0``. A number is a place in a list. A key that has a dot in it cannot be reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ksi_daemon.errors import InvalidData
from ksi_daemon.events import Event

__all__ = ["ROOTS", "Fields", "Path", "fields_of", "found", "path"]

Fields = Mapping[str, Any]
Path = tuple[str, ...]

# What never changes after the event was logged: a rule must decide the same after a restart.
ROOTS: Final = (
    "event",
    "data",
    "source",
    "agent_id",
    "id",
    "correlation_id",
    "cause_id",
    "completion_id",
)
MAX_LENGTH: Final = 256


def path(text: str) -> Path:
    """Return the parts of a path; raise InvalidData for what can lead nowhere."""
    parts = tuple(text[: MAX_LENGTH + 1].split("."))
    if len(text) > MAX_LENGTH or parts[0] not in ROOTS or not all(parts):
        raise InvalidData(
            f"{text[:80]!r} is no path of an event",
            hint=f"begin with one of {', '.join(ROOTS)}, as in data.task.owner",
            details={"path": text[:80]},
        )
    return parts


def fields_of(event: Event) -> Fields:
    """Return the fields of *event* by the names that paths begin with.

    Raise msgspec.MsgspecError if its data cannot be read.
    """
    return {
        "event": event.name,
        "data": msgspec.json.decode(event.data),
        "source": event.source,
        "agent_id": event.agent_id,
        "id": event.id,
        "correlation_id": event.correlation_id,
        "cause_id": event.cause_id,
        "completion_id": event.completion_id,
    }


def found(fields: Fields, where: Path) -> Any:
    """Return the value at *where*, ``msgspec.UNSET`` if there is none."""
    value: Any = fields
    for part in where:
        if isinstance(value, dict):
            value = value.get(part, msgspec.UNSET)
        elif isinstance(value, list) and _is_place(part, value):
            value = value[int(part)]
        else:
            return msgspec.UNSET
    return value


def _is_place(part: str, values: list[Any]) -> bool:
    return part.isascii() and part.isdecimal() and int(part) < len(values)
