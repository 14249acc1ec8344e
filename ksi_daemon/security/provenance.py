"""Provenance: a call that stands in a text from elsewhere is quoted, not meant.

The simple form of the guard: a call of a completion is held when the very same call (name and
arguments) can be found in an untrusted input of its turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from ksi_daemon.extraction import Call, Protocol, Schemas, candidates

__all__ = ["echoed", "fingerprints", "strings"]


def fingerprints(
    texts: Iterable[str], protocol: Protocol, tools: Schemas | None = None
) -> frozenset[bytes]:
    """Return the fingerprints of all calls that stand in *texts*, fenced and quoted ones too.

    *tools* are the schemas by which the agent's own calls are read.
    """
    return frozenset(
        _fingerprint(call) for text in texts for call in candidates(text, protocol, tools=tools)
    )


def echoed(calls: Sequence[Call], untrusted: frozenset[bytes]) -> tuple[bool, ...]:
    """Say for each of *calls* whether it stands among the *untrusted* fingerprints."""
    if not untrusted:
        return (False,) * len(calls)
    return tuple(_fingerprint(call) in untrusted for call in calls)


def strings(value: object) -> Iterator[str]:
    """Yield every text in a JSON value: a model reads what is in it, not how it is escaped."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, str):
            yield found
        elif isinstance(found, dict):
            waiting += [*found, *found.values()]
        elif isinstance(found, list):
            waiting += found


def _fingerprint(call: Call) -> bytes:
    # A quotation with a new id, or with its keys in another order, is still a quotation.
    return msgspec.json.encode((call.name, call.args), order="deterministic")
