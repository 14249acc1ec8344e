"""The rows of approvals, for ``work.Statement``."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from ksi_daemon.log.rows import microseconds
from ksi_daemon.work import Statement

__all__ = ["Approval", "approval", "verdict"]


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for a person: *event_id* is the call as it was denied, *digest* binds
    who asks for what."""

    approval_id: str
    agent_id: str
    event_id: str
    event: str
    data: msgspec.Raw
    digest: bytes
    made: datetime
    expires: datetime


def approval(asked: Approval) -> Statement:
    """Enter an approval; committed together with the call that was denied."""
    return (
        "INSERT INTO approvals"
        " (approval_id, agent_id, event_id, event, data, digest, made, expires)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            asked.approval_id,
            asked.agent_id,
            asked.event_id,
            asked.event,
            bytes(asked.data).decode(),
            asked.digest,
            microseconds(asked.made),
            microseconds(asked.expires),
        ),
    )


def verdict(
    approval_id: str, said: Literal["granted", "denied"], source: str, ts: datetime
) -> Statement:
    """Enter the verdict; a second one fails, and with it all that is committed together."""
    return (
        "INSERT INTO verdicts (approval_id, verdict, source, ts) VALUES (?, ?, ?, ?)",
        (approval_id, said, source, microseconds(ts)),
    )
