"""Words in the texts of events: which events hold them, and where. Pure.

Theory. The log keeps no index of words: one that is written with each event makes the writer ten
times slower, and one beside the log keeps what was pruned. A search reads the events instead,
window by window and the newest first, and ends when it has enough. SQLite throws out what cannot
match by ``LIKE`` on the runs of ASCII letters and digits in the words, which nobody escapes;
what is left is compared by ``holds`` with the escapes of JSON undone.

What is searched is the data of an event, its result, its error and its name. All words must be
there, in any case and as parts of words too; several in double quotes must stand together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

__all__ = ["MAX_WORDS", "Match", "holds", "locate", "search_condition", "words_of"]

MAX_WORDS: Final = 16
AROUND: Final = 60  # characters of context on each side of a match
# Where a search looks: the name of the part and its column.
_PARTS: Final = (
    ("data", "e.data"),
    ("result", "coalesce(o.result, e.result)"),
    ("error", "coalesce(o.error, e.error)"),
    ("event", "e.name"),
)
_WORD: Final = re.compile(r'"([^"]*)"|(\S+)')
_RUN: Final = re.compile(r"[A-Za-z0-9]{2,}")
_ESCAPE: Final = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_CONTROLS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class Match(msgspec.Struct, frozen=True):
    """Where an event holds the first of the words: ``text[start:end]`` in an excerpt of *part*."""

    seq: int
    part: str
    text: str
    start: int
    end: int


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of *text*, what is in double quotes as one, none twice."""
    found = (quoted or plain for quoted, plain in _WORD.findall(text))
    return tuple(dict.fromkeys(word.lower() for word in found if word.strip()))


def search_condition(words: Iterable[str]) -> tuple[str, tuple[Any, ...]]:
    """Return what events ``e`` with outcomes ``o`` must fulfil to hold all *words*."""
    columns = [column for _, column in _PARTS]
    runs = list(dict.fromkeys(run for word in words for run in _RUN.findall(word)))
    like = " OR ".join(f"{column} LIKE ?" for column in columns)
    sql = [f"({like})"] * len(runs) + [f"holds(?, {', '.join(columns)})"]
    values = [f"%{run}%" for run in runs for _ in columns]
    return " AND ".join(sql), (*values, msgspec.json.encode(list(words)).decode())


def holds(words: str, *texts: str | None) -> bool:
    """Say whether all of *words*, a JSON list, are in one or another of the JSON *texts*."""
    read = [readable(text).lower() for text in texts if text is not None]
    return all(any(word in text for text in read) for word in msgspec.json.decode(words))


def locate(
    seq: int, words: Iterable[str], data: str, result: str | None, error: str | None, name: str
) -> Match | None:
    """Return where event *seq* holds the first of *words* that can be shown, None if nowhere."""
    texts = zip(_PARTS, (data, result, error, name), strict=True)
    read = [(part, readable(text)) for (part, _), text in texts if text is not None]
    for word in words:
        for part, text in read:
            found = re.search(re.escape(word), text, re.IGNORECASE)
            if found is not None:
                start = max(0, found.start() - AROUND)
                excerpt = text[start : found.end() + AROUND]
                return Match(seq, part, excerpt, found.start() - start, found.end() - start)
    return None


def readable(text: str) -> str:
    """Return JSON *text* with its escapes undone."""
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_unescaped, text)
    # What lies beyond the basic plane was written as two halves.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescaped(match: re.Match[str]) -> str:
    if match[1] is not None:
        return chr(int(match[1], 16))
    return _CONTROLS.get(match[2], match[2])
