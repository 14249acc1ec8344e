"""Messages in channels, as gpt-oss writes them: calls, thoughts, and the text that is shown.

    <|channel|>analysis<|message|>the user wants a file<|end|>
    <|start|>assistant<|channel|>commentary to=functions.read_file <|constrain|>json
    <|message|>{"path": "a"}<|call|>

(The second message is one line.) The format is published by its makers as "harmony". The recipient
may stand behind the role too, and a reply begins behind the role of its first message. A message
of the channel ``analysis`` is a thought; that of another channel is for the user, and only its
marks are taken out. A message of a role other than the assistant's is the model's own invention.
What closes a message is a mark only before another one and at the end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from ksi_daemon.extraction.beginnings import beginning
from ksi_daemon.extraction.dialects.arguments import Ends, Named, is_settled, read_arguments
from ksi_daemon.extraction.dialects.base import Fault, Framed, FramedDialect, Piece, Reading
from ksi_daemon.extraction.dialects.framing import past_space

__all__ = ["HarmonyDialect"]

_WORDS: Final = r"[^<\n]{0,200}+"
_HEADER: Final = re.compile(
    rf"(?:\s*+to={_WORDS}|<\|start\|>{_WORDS})?+"
    rf"(?:<\|(?:channel|constrain)\|>{_WORDS}){{0,4}}+<\|message\|>"
)
# A header with which the text ends.
_CUT: Final = re.compile(
    rf"(?:\s*+to={_WORDS}|<\|start\|>{_WORDS})?+"
    rf"(?:<\|(?:channel|constrain)\|>{_WORDS}){{0,4}}+(?:<\|?[a-z]{{0,9}}+\|?)?+\Z"
)
_ROLE: Final = re.compile(r"<\|start\|>\s*+([^\s<]*+)")
_CHANNEL: Final = re.compile(r"<\|channel\|>\s*+(\w++)")
_RECIPIENT: Final = re.compile(r"\bto=([^\s<]++)")
_OPENER: Final = re.compile(r"<\|(?:start|channel)\|>")
_CLOSER: Final = re.compile(r"<\|(?:call|end|return)\|>")
_END: Final = re.compile(r"<\|(?:call|end|return)\|>|(?=<\|(?:start|channel)\|>)")
_OURS: Final = frozenset({"", "assistant"})
_PEOPLE: Final = frozenset({"assistant", "user", "all"})
_FUNCTIONS: Final = "functions."


class HarmonyDialect(FramedDialect):
    name: ClassVar[str] = "harmony"
    markers: ClassVar[tuple[str, ...]] = (
        "<|start|>",
        "<|channel|>",
        "<|call|>",
        "<|end|>",
        "<|return|>",
    )
    begins: ClassVar[str] = "<"
    opener: ClassVar[re.Pattern[str]] = re.compile(
        rf"\A\s*+to=(?=[\w.:/-]{{1,200}}+\s*+<\|channel\|>)|{_OPENER.pattern}"
        rf"|{_CLOSER.pattern}(?=\s*+(?:{_OPENER.pattern}|\Z))"
    )
    restart: ClassVar[str] = _OPENER.pattern
    closing: ClassVar[re.Pattern[str] | None] = re.compile(r"<\|[a-z]++\|>(?:[^\n]*+\n|[\s\S])")

    def frame(self, text: str, opener: re.Match[str], reading: Reading) -> Framed | None:
        start = opener.start()
        if _CLOSER.fullmatch(opener[0]):
            return Framed(start, opener.end(), ())
        header = _HEADER.match(text, start)
        if header is None:
            return _cut_off(text, start)
        recipient = _last(_RECIPIENT, header[0])
        if _last(_ROLE, header[0]) not in _OURS:
            note = ("shown", "a message of another role was hidden: it is not the model's to write")
            return Framed(start, _end(text, header.end()), (), (note,))
        if recipient and recipient not in _PEOPLE:
            return _called(text, start, header.end(), recipient, reading)
        if _last(_CHANNEL, header[0]) != "analysis":
            return Framed(start, header.end(), ())
        end = _end(text, header.end())
        thought = _CLOSER.sub("", text[header.end() : end]).strip()
        return Framed(start, end, (), thought=thought)

    def settled(
        self, text: str, opener: re.Match[str], framed: Framed | None, reading: Reading
    ) -> bool:
        header = _HEADER.match(text, opener.start())
        if header is None:
            if _CLOSER.fullmatch(opener[0]):
                return _OPENER.match(text, past_space(text, opener.end())) is not None
            return beginning(_HEADER).match(text, opener.start()) is None
        if framed is None or not framed.pieces:
            return True
        told = Named("", None, header.start(), past_space(text, header.end()))
        return is_settled(text, told, _ENDS)

    def write(self, name: str, args: Mapping[str, Any], id: str) -> str:
        block = json.dumps(args, ensure_ascii=False)
        head = f"<|start|>assistant<|channel|>commentary to=functions.{name} <|constrain|>json"
        return f"{head}<|message|>{block}<|call|>"

    def teach(self, *, compact: bool) -> str:
        return (
            "To call a tool, write a message in the channel `commentary` to `functions.NAME` "
            "whose text is one JSON object with its arguments. One message is one call."
        )


_ENDS: Final = Ends(_OPENER, _CLOSER)


def _called(text: str, start: int, at: int, recipient: str, reading: Reading) -> Framed:
    told = Named(recipient.removeprefix(_FUNCTIONS), None, start, past_space(text, at))
    piece = read_arguments(text, told, _ENDS, reading)
    return Framed(start, piece.end, (piece,))


def _cut_off(text: str, start: int) -> Framed | None:
    """Return the call in whose header the text ends, None if it is none."""
    header = _CUT.match(text, start)
    if header is None or _FUNCTIONS not in header[0]:
        return None
    fault = Fault("unterminated_block", "the reply ends before the arguments")
    return Framed(start, len(text), (Piece(start, len(text), fault, start),))


def _end(text: str, at: int) -> int:
    """Return where the message ends whose text begins at *at*, what closes it included."""
    found = _END.search(text, at)
    return found.end() if found else len(text)


def _last(pattern: re.Pattern[str], header: str) -> str:
    """Return what *pattern* finds last in *header*, "" if nothing."""
    return next(reversed(pattern.findall(header)), "")
