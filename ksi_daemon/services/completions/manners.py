"""The manners by which replies are read, kept once in the log and not with each reply."""

from __future__ import annotations

import time
from typing import Final

import msgspec

from ksi_daemon.conversation import Manner
from ksi_daemon.log import attempts
from ksi_daemon.work import Statement

__all__ = ["Manners"]

# Retention deletes a manner with the last reply that was read by it: from time to time it is
# written again, which does nothing where it is still there.
KNOWN_S: Final = 60.0


class Manners:
    """Which manners the log has, as far as is known."""

    def __init__(self) -> None:
        self._known: dict[bytes, float] = {}

    def rows(self, completion_id: str, manner: Manner) -> list[Statement]:
        """Return the rows that say how a completion is read."""
        rows = [attempts.read_by(completion_id, manner.digest)]
        if time.monotonic() - self._known.get(manner.digest, -KNOWN_S) < KNOWN_S:
            return rows
        protocol = msgspec.json.encode(manner.protocol)
        schemas = msgspec.json.encode(manner.schemas)
        return [attempts.manner(manner.digest, protocol, schemas, native=manner.native), *rows]

    def committed(self, manner: Manner) -> None:
        """Take note that the rows of *manner* are in the log."""
        now = time.monotonic()
        if now - self._known.get(manner.digest, -KNOWN_S) >= KNOWN_S:
            self._known[manner.digest] = now
