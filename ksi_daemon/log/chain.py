"""The chain: each event's hash is over the one before it, so what was changed later shows.

    hash = sha256(hash of the event before, outcomes written since, the event)

An event is the MessagePack array of its row (``rows.PLAIN_COLUMNS`` if it has no more than those,
else ``rows.EVENT_COLUMNS``), an outcome that of ``rows.OUTCOME_COLUMNS``; outcomes between two
events are in the order of their seqs. The event before the first is all zeros, or the anchor:
the last event that was pruned. Outcomes after the newest event are covered when the next comes.

This is evidence, not a lock: who can write the file can write all hashes anew, unless a later
one is kept elsewhere. The daemon's text log has one each HEAD_EVERY events.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec

__all__ = ["GENESIS", "HEAD_EVERY", "Head", "Link", "link", "linked"]

GENESIS: Final = bytes(32)
HEAD_EVERY: Final = 1_000

Link = tuple[int, bytes]
_encode: Final = msgspec.msgpack.Encoder().encode


class Head(NamedTuple):
    """The end of the chain: the newest event's *seq* and *hash*, and the outcomes since."""

    seq: int
    hash: bytes
    loose: tuple[Link, ...] = ()


def linked(before: bytes, loose: Sequence[Link], row: tuple[Any, ...]) -> bytes:
    """Return the hash of the event *row* that follows the hash *before* and *loose* outcomes."""
    if loose:
        before += b"".join(encoded for _, encoded in sorted(loose))
    return sha256(before + _encode(row)).digest()


def link(row: tuple[Any, ...]) -> Link:
    """Return what an outcome's *row* adds to the chain."""
    return row[0], _encode(row)
