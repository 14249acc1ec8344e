"""Text for a terminal: what may be shown, how wide it is, in what colour.

Events hold what models and strangers wrote. Shown as it is, it could move the cursor, rewrite
the lines above it or reverse the order of what is read; so everything that is not plainly
visible is shown as an escape.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Final, Literal

__all__ = ["Color", "Paint", "clip", "pad", "visible", "visible_json", "width", "wrapped"]

Color = Literal["", "bold", "dim", "red", "green", "yellow", "blue", "magenta", "cyan", "under"]

_SGR: Final = {
    "bold": "1",
    "dim": "2",
    "under": "4",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
# Zero-width (non-)joiners: Persian, Indic scripts and emoji need them, and they move nothing.
_JOINERS: Final = "\u200c\u200d"
_NAMED: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\x1b": r"\e"}
_TAB: Final = "    "


def visible(text: str, *, lines: bool = False) -> str:
    """Return *text* with every character that is not plainly visible escaped.

    Control, format and bidirectional characters, surrogates, unassigned and private ones, and
    spaces other than the common one become ``\\n``, ``\\e``, ``\\x07``, ``\\u202e``. With *lines*
    newlines stay and tabs become spaces.
    """
    if lines:
        return "\n".join(visible(line.replace("\t", _TAB)) for line in text.split("\n"))
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _JOINERS else _escaped(c) for c in text)


def visible_json(text: str) -> str:
    """Return the JSON *text* with what is not plainly visible as ``\\uXXXX``: the same value."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _JOINERS else _json_escaped(c) for c in text)


def width(text: str) -> int:
    """Return how many cells *text* takes; it holds no control characters."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def clip(text: str, cells: int) -> str:
    """Return *text* in at most *cells* cells, with an ellipsis where it was cut."""
    # A cell holds at most a few characters (a base and its marks): no need to measure a megabyte.
    if len(text) <= cells * 8 and width(text) <= cells:
        return text
    kept, used = [], 0
    for character in text:
        used += _cells(character)
        if used > cells - 1:
            break
        kept.append(character)
    return "".join(kept) + "…" if cells > 0 else ""


def pad(text: str, cells: int, *, right: bool = False) -> str:
    """Return *text* filled up with spaces to *cells*; with *right* it stands at the right."""
    space = " " * max(0, cells - width(text))
    return space + text if right else text + space


def wrapped(text: str, cells: int) -> Iterator[str]:
    """Yield *text* in lines of at most *cells*, broken at spaces where there are any."""
    for line in text.split("\n"):
        while width(line) > cells:
            cut = len(clip(line, cells)) - 1
            space = line.rfind(" ", 1, cut + 1)
            cut = space if space > 0 else max(cut, 1)
            yield line[:cut]
            line = line[cut:].lstrip(" ")
        yield line


class Paint:
    """Colours, or none at all."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled

    def __call__(self, text: str, *colors: Color) -> str:
        codes = ";".join(_SGR[color] for color in colors if color)
        return f"\x1b[{codes}m{text}\x1b[0m" if self.enabled and codes and text else text


def _escaped(character: str) -> str:
    code = ord(character)
    if character in _NAMED:
        return _NAMED[character]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escaped(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[n : n + 2].hex()}" for n in range(0, len(units), 2))


def _cells(character: str) -> int:
    if character in _JOINERS or unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
