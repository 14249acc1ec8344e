"""The form for long text: arguments that stand between two fences as they are, nothing escaped.

    ~~~ksi composition:create_component id=ksiu_01
    {"name": "agents/greeter"}
    --- content
    raw text: "quotes", {braces}, whatever
    ~~~

The first line names the event; the id may be left out. An object with further arguments may
follow. Then comes any number of sections: a line of dashes with an argument's name, and its text
up to the next such line or the closing fence. The line end before that belongs to the mark, so
text that ends with a line end is followed by an empty line. An object or a section there must be.

Any text can be written, because both marks can be made longer than all that is in it:

-   The block ends at a line of tildes alone, at least as many as it began with.
-   The first section says how many dashes the lines have that begin one; others are text.

The marks may be indented by up to three spaces; nothing is taken off the lines of a text. Where
the first line ends with CR LF, so does the last one of each text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from ksi_daemon.extraction.dialects.base import Framed, FramedDialect, Reading
from ksi_daemon.extraction.dialects.sections import (
    DIFF,
    KEY,
    MIN_RUN,
    RUNS,
    SectionsReader,
    dashes_in,
)

__all__ = ["BodyDialect", "long_fields"]

LONG: Final = 1000  # characters: who allows so many expects more than a line
_LONG_FORMATS: Final = frozenset({"text", "markdown"})

# Text that JSON makes hard to write.
_DELICATE: Final = re.compile(r"[\n\r\"\\]")
_KEY: Final = re.compile(KEY)
_TILDES: Final = re.compile("~++")


class BodyDialect(FramedDialect):
    name: ClassVar[str] = "ksi_body"
    markers: ClassVar[tuple[str, ...]] = ("~~~ksi", "~~~ ksi", "```ksi ", "``` ksi ")
    begins: ClassVar[str] = "`~"
    opener: ClassVar[re.Pattern[str]] = re.compile(
        rf"(?P<run>{'|'.join(RUNS)})[ \t]*+ksi(?=\s|\Z)(?P<head>[^\n]*+)"
    )
    closing: ClassVar[re.Pattern[str] | None] = re.compile(r"~~~[^\n]*+\n")
    restart: ClassVar[str] = r"~~~+[ \t]*+ksi[ \t]++[^\s`]"
    nonce_place: ClassVar[str] = "in the id as `ksiu_{nonce}_01`"
    sample = (
        "state:set",
        {"key": "draft", "value": '# Title\n\nJust as it is: "quotes", {braces}, \\ and ```.'},
    )

    def frame(self, text: str, opener: re.Match[str], reading: Reading) -> Framed | None:
        return SectionsReader(text, opener, reading).frame()

    def settled(
        self, text: str, opener: re.Match[str], framed: Framed | None, reading: Reading
    ) -> bool:
        reader = SectionsReader(text, opener, reading)
        reader.frame()
        return reader.settled(framed)

    def write(self, name: str, args: Mapping[str, Any], id: str) -> str:
        raw = {key: value for key, value in args.items() if _is_raw(key, value)}
        rest = {key: value for key, value in args.items() if key not in raw}
        lines = [f"{name} id={self._id(id)}" if id else name]
        if rest or not raw:
            lines.append(json.dumps(rest, ensure_ascii=False))
        dashes = _unlike({dashes for value in raw.values() for dashes in dashes_in(value)})
        lines += (f"{dashes} {key}\n{value}" for key, value in raw.items())
        fence = _longer(raw.values())
        return f"{fence}ksi " + "\n".join([*lines, fence])

    def teach(self, *, compact: bool) -> str:
        name, args = self.sample
        example = self.write(name, args, "ksiu_01")
        if compact:
            return f"Long text, nothing escaped (if it holds `~~~`: longer fences):\n{example}"
        return (
            "Write a block of lines for a long text, such as a document or a program. The first "
            "line names the event and has an id, new for every block. Then comes one JSON object "
            "with the short values; it may be left out. Then for each long value a line of three "
            "dashes and its name, and below it the text just as it is, without quotes around it, "
            f"with nothing escaped. A line of three tildes ends the block:\n\n{example}\n\n"
            "If a text has a line of tildes in it, begin and end the block with more of them. If "
            "it has a line of three dashes and a word in it, write the lines with the names with "
            "four dashes."
        )

    def _id(self, id: str) -> str:
        return f"ksiu_{self.nonce}_{id.removeprefix('ksiu_')}" if self.nonce else id


def long_fields(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the arguments under the JSON Schema *schema* that are meant to hold long text.

    These are strings that have a ``contentMediaType`` and no ``contentEncoding`` (JSON Schema,
    validation, section 8), a ``format`` of ``text`` or ``markdown``, or a ``maxLength`` of LONG
    or more.
    """
    fields = schema.get("properties", {})
    return tuple(key for key, field in fields.items() if _KEY.fullmatch(key) and _is_long(field))


def _is_long(field: Any) -> bool:
    if not isinstance(field, Mapping) or "enum" in field or "contentEncoding" in field:
        return False
    kinds = field.get("type")
    if "string" not in (kinds if isinstance(kinds, list) else [kinds]):
        return any(_is_long(each) for each in field.get("anyOf", ()))
    limit = field.get("maxLength", 0)
    return (
        "contentMediaType" in field
        or field.get("format") in _LONG_FORMATS
        or (isinstance(limit, int) and limit >= LONG)
    )


def _is_raw(key: str, value: Any) -> bool:
    return (
        isinstance(value, str)
        and not value.startswith(DIFF)
        and _DELICATE.search(value) is not None
        and _KEY.fullmatch(key) is not None
    )


def _longer(texts: Iterable[str]) -> str:
    """Return a fence that none of *texts* can close."""
    runs = (len(run) for text in texts for run in _TILDES.findall(text))
    return "~" * max(MIN_RUN, 1 + max(runs, default=0))


def _unlike(taken: set[str]) -> str:
    """Return the shortest run of dashes that is none of *taken*."""
    length = MIN_RUN
    while "-" * length in taken:
        length += 1
    return "-" * length
