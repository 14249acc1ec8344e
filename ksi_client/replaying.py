"""Replies read again, and how that differs from what was found in them before. Pure.

What the guard held (``echo``, ``quoted``, ``no_nonce``) and what was refused with its whole reply
was read as a call all the same: why it did not run is no matter of reading, and no difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from ksi_daemon.extraction import EXTRACTOR_VERSION, Extraction, Protocol, Schemas, read_reply

__all__ = [
    "KINDS",
    "Difference",
    "Kind",
    "Read",
    "Reply",
    "Tally",
    "difference",
    "differences",
    "found_in",
    "reads_of",
]

# gained: a call where there was nothing; lost: nothing where there was something; changed: another
# name, other arguments, another place, another error; repaired: a call that was none before, or was
# one without that mending; rejected: no call any more, or a block that nobody had seen.
Kind = Literal["gained", "lost", "changed", "repaired", "rejected"]
KINDS: Final[tuple[Kind, ...]] = ("gained", "lost", "changed", "repaired", "rejected")

_NATIVE: Final = "native"
# Added to what an agent says of itself, after it was read.
_ADDED: Final = frozenset({"agent_id"})


class Read(msgspec.Struct, frozen=True, omit_defaults=True):
    """One block as it is read: a call with *name*, or rejected with *code*.

    *args* are None where they are not known: of a call that did not run the log has none.
    """

    dialect: str
    start: int
    end: int
    name: str | None = None
    args: Mapping[str, Any] | None = None
    repairs: tuple[str, ...] = ()
    code: str | None = None


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A reply, what it is read by, and what was found in it before, by which extractor."""

    id: str
    text: str
    message: dict[str, Any] | None = None
    stop_reason: str | None = None
    protocol: Protocol
    tools: Schemas = {}
    native: bool = False
    extractor: int = EXTRACTOR_VERSION
    reads: tuple[Read, ...] = ()
    seq: int | None = None
    agent_id: str | None = None
    model: str | None = None


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """A block of a reply that is read otherwise than it was; *what* names what is other."""

    kind: Kind
    was: Read | None
    now: Read | None
    what: tuple[str, ...] = ()


class Tally:
    """What a replay has seen: replies, blocks, differences by kind, versions that read before."""

    def __init__(self) -> None:
        self.replies = 0
        self.blocks = 0
        self.kinds: Counter[Kind] = Counter()
        self.extractors: set[int] = set()
        self.unreadable = 0

    def add(self, reply: Reply, found: Sequence[Difference]) -> None:
        """Count a reply."""
        self.replies += 1
        self.blocks += len(reply.reads)
        self.extractors.add(reply.extractor)
        self.kinds.update(each.kind for each in found)

    @property
    def differs(self) -> int:
        """How many blocks are read otherwise."""
        return sum(self.kinds.values())

    def summary(self) -> dict[str, Any]:
        """Return the counts as JSON has them."""
        return {
            "replies": self.replies,
            "blocks": self.blocks,
            "differ": self.differs,
            **{kind: self.kinds[kind] for kind in KINDS},
            "unreadable": self.unreadable,
            "extractors": sorted(self.extractors),
            "extractor": EXTRACTOR_VERSION,
        }


def found_in(reply: Reply) -> Extraction:
    """Read *reply* with the extractor of this ksi."""
    return read_reply(
        reply.text,
        reply.message,
        reply_id=reply.id,
        protocol=reply.protocol,
        tools=reply.tools,
        native=reply.native,
        stop_reason=reply.stop_reason,
    ).chosen


def reads_of(found: Extraction) -> tuple[Read, ...]:
    """Return what was *found*, in the order of the places."""
    reads = [
        Read(call.dialect, call.start, call.end, call.name, call.args, call.repairs)
        for call in found.calls
    ]
    reads += [
        Read(block.dialect, block.start, block.end, code=block.code) for block in found.rejected
    ]
    return tuple(sorted(reads, key=_place))


def differences(was: Sequence[Read], now: Sequence[Read]) -> list[Difference]:
    """Return how *now* differs from *was*, in the order of the places."""
    pairs = sorted(_paired(was, now), key=lambda pair: _place(pair[0] or pair[1]))
    return [found for pair in pairs if (found := difference(*pair)) is not None]


def difference(was: Read | None, now: Read | None) -> Difference | None:
    """Return how one block is read otherwise, None if it is not."""
    if now is None:
        return Difference("lost", was, now)
    if was is None:
        return Difference("rejected" if now.code else "gained", was, now)
    if was.code and not now.code:
        return Difference("repaired", was, now)
    if now.code and not was.code:
        return Difference("rejected", was, now)
    what = tuple(_other(was, now))
    if not what:
        return None
    mended = what == ("repairs",) and not was.repairs
    return Difference("repaired" if mended else "changed", was, now, what)


def _other(was: Read, now: Read) -> Iterator[str]:
    """Yield what is other of two calls, or of two rejected blocks."""
    if was.code != now.code:
        yield "code"
    if was.name is not None and was.name != now.name:
        yield "name"
    if not _same_args(was.args, now.args):
        yield "args"
    if was.dialect != now.dialect:
        yield "dialect"
    if was.repairs != now.repairs:
        yield "repairs"
    if (was.start, was.end) != (now.start, now.end):
        yield "span"


def _same_args(was: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> bool:
    """Say whether a call with the arguments *now* would have been logged with the data *was*.

    Keys that begin with ``_`` are the daemon's and were dropped from what agents sent; who sends
    was added where an event must say it.
    """
    if was is None or now is None:
        return True
    sent = {key: value for key, value in now.items() if not key.startswith("_")}
    kept = {key: value for key, value in was.items() if not key.startswith("_")}
    added = kept.keys() - sent.keys()
    return added <= _ADDED and {key: kept[key] for key in kept if key not in added} == sent


def _paired(was: Sequence[Read], now: Sequence[Read]) -> Iterator[tuple[Read | None, Read | None]]:
    """Pair the blocks of the same place, then those whose places overlap; the rest is alone."""
    left = list(now)
    waiting: list[Read] = []
    for before in was:
        same = next((each for each in left if _place(each) == _place(before)), None)
        if same is None:
            waiting.append(before)
        else:
            left.remove(same)
            yield before, same
    for before in waiting:
        near = next((each for each in left if _overlap(before, each)), None)
        if near is not None:
            left.remove(near)
        yield before, near
    yield from ((None, after) for after in left)


def _place(read: Read | None) -> tuple[bool, int, int]:
    if read is None:
        raise ValueError("a pair of nothing")
    return read.dialect != _NATIVE, read.start, read.end


def _overlap(one: Read, other: Read) -> bool:
    if _NATIVE in (one.dialect, other.dialect):
        return False
    return one.start < other.end and other.start < one.end
