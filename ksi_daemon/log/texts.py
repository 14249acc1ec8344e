"""Long texts of conversations, which the log has once: in the events that they came with.

A reference and its index cost some 100 bytes. Of exchanges with documents of 20 KB and replies of
4 KB half of the log were copies; below LONG there is little to gain, and a conversation is read
faster without looking up its events.
"""

from __future__ import annotations

import sqlite3
from typing import Any, Final

import msgspec

from ksi_daemon.log.rows import json_text

__all__ = ["LONG", "in_event", "restore_texts", "text_of_row"]

# Characters.
LONG: Final = 512

_REFERENCES: Final = """
SELECT m.id, m.content, e.data FROM messages m JOIN events e ON e.id = m.text_of
 WHERE e.seq <= ?
"""


class _Said(msgspec.Struct):
    """The data of the two events that hold texts of conversations."""

    text: str | None = None
    message: Any = None


def in_event(content: str) -> tuple[str, str] | None:
    """Return how ``agent:send`` may have written *content*; None if it is short."""
    if len(content) < LONG:
        return None
    written = json_text(content)
    return f'"message":{written}', f'"message": {written}'


def text_of_row(content: str, data: str | None) -> str:
    """Return the text of a message: *content*, unless it stands in the event with *data*."""
    if data is None:
        return content
    said = msgspec.json.decode(data, type=_Said)
    return said.text if said.text is not None else str(said.message)


def restore_texts(connection: sqlite3.Connection, through: int) -> None:
    """Give messages the texts that stand in events up to *through*, which are to be deleted."""
    for number, content, data in connection.execute(_REFERENCES, (through,)).fetchall():
        connection.execute(
            "UPDATE messages SET content = ?, text_of = NULL WHERE id = ?",
            (text_of_row(content, data), number),
        )
