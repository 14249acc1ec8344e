"""A terminal as a screen: taken over and given back, keys out of bytes, lines drawn on it."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, Final

__all__ = ["Screen", "keys_of"]

_SEQUENCES: Final = MappingProxyType(
    {
        b"\x1b[A": "up",
        b"\x1b[B": "down",
        b"\x1bOA": "up",
        b"\x1bOB": "down",
        b"\x1b[5~": "pgup",
        b"\x1b[6~": "pgdn",
        b"\x1b[H": "home",
        b"\x1b[F": "end",
        b"\x1b[1~": "home",
        b"\x1b[4~": "end",
        b"\x1b[Z": "backtab",
    }
)
_SINGLE: Final = MappingProxyType(
    {"\t": "tab", "\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace"}
    | {"\x1b": "esc", "\x0c": "redraw"}
)
_TAKE, _GIVE_BACK = "\x1b[?1049h\x1b[?25l\x1b[2J", "\x1b[0m\x1b[?25h\x1b[?1049l"


def keys_of(data: bytes) -> Iterator[str]:
    """Yield the keys that *data* is what a terminal sends for; what is no key is left out."""
    while data.startswith(b"\x1b") and len(data) > 1:
        known = next((each for each in _SEQUENCES if data.startswith(each)), None)
        if known is not None:
            yield _SEQUENCES[known]
            data = data[len(known) :]
        elif data[1:2] in (b"[", b"O"):
            end = next((n for n, byte in enumerate(data[2:], start=3) if byte >= 0x40), len(data))
            data = data[end:]
        else:
            yield "esc"
            data = data[1:]
    head, escape, tail = data.partition(b"\x1b")
    if not head:
        if escape:
            yield "esc"
        return
    for character in head.decode(errors="ignore"):
        if character in _SINGLE:
            yield _SINGLE[character]
        elif character.isprintable():
            yield character
    yield from keys_of(escape + tail)


class Screen:
    """The terminal of the process while it is taken over; a context manager."""

    def __init__(self) -> None:
        self._keyboard = sys.stdin.fileno()
        self._settings: list[Any] = []
        self._drawn: list[str] = []

    def __enter__(self) -> Screen:
        self._settings = termios.tcgetattr(self._keyboard)
        tty.setcbreak(self._keyboard)
        self._write(_TAKE)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._write(_GIVE_BACK)
        # Without waiting: whoever should read what was written may be gone.
        termios.tcsetattr(self._keyboard, termios.TCSANOW, self._settings)

    @property
    def size(self) -> tuple[int, int]:
        """Cells and rows, as they are now."""
        found = os.get_terminal_size(sys.stdout.fileno())
        # One that does not say how large it is says 0.
        return found.columns or 80, found.lines or 24

    def keys(self, timeout_s: float) -> list[str]:
        """Return the keys that are pressed within *timeout_s*; raise EOFError at the end."""
        ready, _, _ = select.select([self._keyboard], [], [], timeout_s)
        if not ready:
            return []
        data = os.read(self._keyboard, 1024)
        if not data:
            raise EOFError
        return list(keys_of(data))

    def draw(self, lines: Sequence[str]) -> None:
        """Show *lines*; only those that are others than before are written."""
        if len(lines) != len(self._drawn):
            self.forget()
        changed = [
            f"\x1b[{number + 1};1H{line}\x1b[0m\x1b[K"
            for number, line in enumerate(lines)
            if number >= len(self._drawn) or line != self._drawn[number]
        ]
        if changed:
            self._write("".join(changed))
        self._drawn = list(lines)

    def forget(self) -> None:
        """Have all drawn anew: the size is another, or something else wrote here."""
        self._drawn = []
        self._write("\x1b[2J")

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
