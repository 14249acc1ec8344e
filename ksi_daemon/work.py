"""What the event log is asked to write, as values: the router makes them, the log keeps them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec

from ksi_daemon.events import Event, Outcome

__all__ = ["Ended", "Idempotency", "Journal", "Statement", "Transaction", "Work"]

# Runs in the writer's thread inside the transaction; what it returns is JSON for the outcome.
Transaction = Callable[[sqlite3.Connection], msgspec.Raw]
Statement = tuple[str, tuple[Any, ...]]


class Idempotency(msgspec.Struct, frozen=True):
    """A client's key for an event: within *scope* the same *key* is logged once.

    *digest* is over name and data: the same key with another digest is ``idem_conflict``.
    """

    scope: str
    key: str
    digest: bytes


class Ended(msgspec.Struct, frozen=True):
    """The outcome of an event that is in the log already; *call*: which may be an agent's call."""

    seq: int
    outcome: Outcome
    call: bool = True


class Work(msgspec.Struct):
    """One unit for the writer: all of it is committed, or none.

    In this order: *event* is inserted (with its status; with *outcome* when it has ended),
    *transaction* runs in a savepoint and its result becomes the event's outcome (handled, or
    failed with the error's info when it raises a KsiError; other exceptions are
    ``handler_failed``), *ended* is recorded, *statements* are executed.

    After the commit the writer has set ``event.seq``, ``event.status``, ``outcome`` and, when
    *idempotency* named an event that was logged before, *duplicate*: then nothing was written,
    ``event.seq`` is the earlier event's and ``outcome`` its outcome (None while it has not ended).

    *after* is what it was submitted ``together`` with: where that is refused, so is this.
    """

    event: Event | None = None
    outcome: Outcome | None = None
    transaction: Transaction | None = None
    ended: Ended | None = None
    statements: tuple[Statement, ...] = ()
    idempotency: Idempotency | None = None
    duplicate: bool = False
    after: Work | None = None


class Journal(Protocol):
    """The log as the router sees it: something that makes work durable, in order."""

    durability: str

    def submit(self, work: Work) -> asyncio.Future[Work]:
        """Queue *work*; the future ends after its commit, or with a StorageError."""
        ...

    def together(self) -> AbstractContextManager[None]:
        """Have all that is submitted within the block, which must not wait, be one commit.

        Where the first unit is refused, the others are too.
        """
        ...
