"""Read what nearly every reply is, prose and calls in exact JSON, almost as fast as JSON is read.

The general reader (``extractor``) asks of each place what it could be. Of most replies that is
known at a glance, and here only that glance is taken. Whatever it does not settle ends it: the
calls before that place stand, and the general reader goes on behind the last of them. So nothing
is decided here. A call is taken only where the general reader takes the same one, and that is what
each test has to make sure of; where they only may differ, the answer is to leave.

*Where an object ends* is guessed: with its line, or, where the brace stands alone, with the brace
that closes it in the same column. JSON says itself where it ends, so if the text up to there is
one object, the guess was right.

*That it is plain* the decoder says, and its type, which is an object nested less deep than any
limit. It refuses what ``reader.scan`` refuses, and half a surrogate pair; of a key that is repeated
it keeps the last value and says nothing. So the value is written again: if that is the text
without its blanks, nothing was lost. Where the text spells something in another way the quotes are
counted, of which a lost member has two at least; but then none may be spelled ``\\u0022``.

*That nothing else begins before it, and that it is said and not shown,* is plain where the prose
has none of the characters that could begin either; fences around JSON are known by sight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from ksi_daemon.extraction.dialects import Draft, FramedDialect
from ksi_daemon.extraction.findings import AFTERMATH
from ksi_daemon.extraction.frames import may_begin
from ksi_daemon.extraction.glance import Glance
from ksi_daemon.extraction.model import Call, Extraction
from ksi_daemon.extraction.presets import DEPTH, Protocol
from ksi_daemon.extraction.quoting import Quoting

__all__ = ["read_plain"]

NEAR: Final = 8  # as in ``extractor``

_BEFORE_VALUE: Final = " \t\n\r:,"
_OPENING_FENCE: Final = "```json\n"
_CLOSING_FENCE: Final = "\n```\n"


def _object(depth: int) -> Any:
    """Return the type of an object in JSON with at most *depth* containers in one another."""
    value: Any = None | bool | int | float | str
    for _ in range(depth - 1):
        value = None | bool | int | float | str | list[value] | dict[str, value]
    return dict[str, value]


_decode: Final = msgspec.json.Decoder(_object(DEPTH)).decode
_encode: Final = msgspec.json.Encoder().encode
_format: Final = msgspec.json.format


def read_plain(text: str, protocol: Protocol, new_id: Callable[[], str]) -> Extraction | list[Call]:
    """Return what *text* holds, or the calls before the first place that needs a closer look."""
    glance = protocol.glance
    calls: list[Call] = []
    if glance is None or len(text) > protocol.max_reply_chars:
        return calls
    start = text.find("{")
    if start < 0:
        for mark in glance.unbraced:
            # A word is sought only where its first letter is: that is much faster.
            if mark[0] in text and mark in text:
                return calls if may_begin(text, 0, len(text), glance.framed) else Extraction(text)
        return Extraction(text)
    if protocol.open_thought and "</think" in text:
        return calls
    around: _Around | None = None
    ids: set[str | None] = set()
    said: list[str] = []
    prose = text[:start]
    bare = _is_bare(prose, glance.others)
    while start >= 0:
        if around or not bare:
            around = around or _Around(text, glance.framed, calls)
            if not around.leaves_alone(start, prose):
                return calls
        end = _guessed_end(text, start, prose)
        found = _read_call(text, start, end, protocol, glance)
        if found is None or len(calls) == protocol.max_calls:
            return calls
        draft, dialect = found
        if draft.id in ids or (protocol.dedupe and _is_repeated(draft, calls)):
            return calls
        following = text.find("{", end)
        behind = text[end:] if following < 0 else text[end:following]
        bare = _is_bare(behind, glance.others)
        if not bare and AFTERMATH.match(text, end):
            return calls
        id = draft.id or new_id()
        new = draft.id is None
        calls.append(Call(draft.name, draft.args, id, new, dialect, start, end, (), draft.nonce))
        ids.add(id)
        if around:
            around.pass_over(end)
        said.append(prose)
        start, prose = following, behind
    if not bare and may_begin(text, len(text) - len(prose), len(text), glance.framed):
        return calls
    said.append(prose)
    return Extraction("".join(said), tuple(calls))


def _guessed_end(text: str, start: int, prose: str) -> int:
    """Return where the object at *start* most likely ends; *prose* is what stands before it."""
    line = text.find("\n", start)
    end = text.rfind("}", start, line if line >= 0 else len(text)) + 1
    if end:
        return end
    indent = prose[prose.rfind("\n") + 1 :]
    closing = f"\n{indent}}}"
    return max(text.find(closing, line) + len(closing), start)


def _read_call(
    text: str, start: int, end: int, protocol: Protocol, glance: Glance
) -> tuple[Draft, str] | None:
    """Return the call that the text from *start* to *end* is, and the name of its dialect."""
    block = _read_object(text[start:end])
    if block is None or end - start > protocol.max_block_chars:
        return None
    for opener in glance.openers:
        if opener.match(text, start):
            return None
    strict = protocol.mode == "strict"
    for dialect in glance.objects:
        draft = dialect.read(block, strict=strict)
        if draft is None:
            continue
        if type(draft) is Draft and not draft.notes and not draft.thought:
            return draft, dialect.name
        break
    return None


def _read_object(piece: str) -> dict[str, Any] | None:
    """Return the object that *piece* is, if it is plain and repeats no key."""
    try:
        block = piece.encode()
        value: dict[str, Any] = _decode(block)
        written = _encode(value)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if block == written or _format(block, indent=-1) == written:
        return value
    alike = block.count(b'"') == written.count(b'"') and b"\\u0022" not in block
    return value if alike else None


def _is_bare(prose: str, others: tuple[str, ...]) -> bool:
    """Say whether nothing in *prose* could matter to a call before or behind it."""
    if '"' in prose or "}" in prose or "[" in prose or ">" in prose or "~" in prose:
        return False
    if "`" in prose:
        fences = prose.removeprefix(_CLOSING_FENCE).removesuffix(_OPENING_FENCE)
        return "`" not in fences and not _holds_any(prose, others)
    return not others or not _holds_any(prose, others)


def _holds_any(prose: str, marks: tuple[str, ...]) -> bool:
    return any(map(prose.__contains__, marks))


def _is_repeated(draft: Draft, calls: list[Call]) -> bool:
    """Say whether one of *calls* may ask for the same."""
    return any(call.name == draft.name and call.args == draft.args for call in calls)


class _Around:
    """What is around the calls of *text*: asked once prose is not bare, and from there on."""

    def __init__(self, text: str, framed: tuple[FramedDialect, ...], calls: list[Call]) -> None:
        self._text = text
        self._framed = framed
        self._quoting = Quoting(text)
        for call in calls:
            self._quoting.at(call.start)
            self._quoting.pass_over(call.end)

    def leaves_alone(self, start: int, prose: str) -> bool:
        """Say whether the object at *start*, behind *prose*, surely stands for itself."""
        if ":" in prose[-NEAR:] and prose.rstrip(_BEFORE_VALUE).endswith('"'):
            return False
        if may_begin(self._text, start - len(prose), start, self._framed):
            return False
        return self._quoting.at(start) is None

    def pass_over(self, end: int) -> None:
        self._quoting.pass_over(end)
