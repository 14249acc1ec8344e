"""A reply as a whole: which of the calls in its text and of the native ones beside it count.

The loop reads replies by this, and replay reads logged ones again by the very same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, NamedTuple

import msgspec

from ksi_daemon.extraction.dialects import Schemas
from ksi_daemon.extraction.extractor import extract
from ksi_daemon.extraction.model import Extraction
from ksi_daemon.extraction.native import choose, native_names, read_native
from ksi_daemon.extraction.presets import Protocol

__all__ = ["Found", "read_reply"]


class Found(NamedTuple):
    """What counts of a reply, and what was found beside its text and in it."""

    chosen: Extraction
    beside: Extraction
    inside: Extraction


def read_reply(
    text: str,
    message: dict[str, Any] | None,
    *,
    reply_id: str,
    protocol: Protocol,
    tools: Schemas,
    native: bool,
    stop_reason: str | None,
) -> Found:
    """Return the calls of a reply: of its *text* and of *message*, its native form if it has one.

    *native*: the tools went to the provider as such. Native calls without an id get one that is
    made of *reply_id*, so that a reply which is read again has the same calls.
    """
    beside = Extraction("")
    if message is not None:
        beside = read_native(message, names=native_names(tools), new_id=_ids(reply_id))
    has_native = bool(beside.calls or beside.rejected)
    inside = extract(
        text,
        _for_text(protocol, native=native, has_native=has_native),
        stop_reason=stop_reason,
        tools=tools,
    )
    if not has_native and not (inside.calls and native):
        return Found(inside, beside, inside)
    return Found(choose(beside, inside, declared=native), beside, inside)


def _for_text(protocol: Protocol, *, native: bool, has_native: bool) -> Protocol:
    # Whether a vendor's template opens a thought is not known, and the reply is whole.
    protocol = msgspec.structs.replace(protocol, open_thought=True)
    if protocol.whole and (has_native or native):
        # Where calls are native, the text need not be one object.
        return msgspec.structs.replace(protocol, mode="lenient")
    return protocol


def _ids(reply_id: str) -> Callable[[], str]:
    numbers: Iterator[int] = count(1)
    return lambda: f"call_{reply_id.replace('-', '')}_{next(numbers)}"
