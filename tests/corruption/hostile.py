"""A seeded search for texts that cost more than their length.

A text is a short unit repeated, between a head and a tail that no repetition has; the search draws
the unit from pieces of markup of every dialect, grows it where it is dear, and keeps the dearest.
Two measures: how the cost grows when the text doubles (2 is linear, 4 is quadratic), and how much
a character costs.

    python -m tests.corruption.hostile 2000 any     prints the dearest units of so many draws
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from ksi_daemon.extraction import PRESETS, extract
from ksi_daemon.extraction.dialects import DIALECTS
from tests.growth import doubling, repeated, seconds

__all__ = ["HOSTILE", "TAIL", "Shape", "fragments", "growth", "search", "text_of"]

SIZE: Final = 16_000  # characters, to find a unit
SURE: Final = 60_000  # characters, to be sure of it
SUSPECT: Final = 2.6
KEPT: Final = 12
# Marks of every kind stand at the end, so that each is sought through the whole text.
TAIL: Final = "\n" + "\n".join(
    dialect.write("t", {"k": "v"}, "ksiu_1") for dialect in DIALECTS.values()
)
# The dearest that were found, by hand and by this search: a preset, a head and a unit.
HOSTILE: Final = (
    ("ksi", "", '{"event":"a:b",'),
    ("ksi", "", '{"event":"a:b","data":{'),
    ("ksi", "", '{"a":{"event":"a:b","data":{}},'),
    ("ksi", "", '{"event":"a:b","data":{"x":"\n'),
    ("ksi", "<|tools_prefix|>~~~ ksi", "{'event':/*"),
    ("ksi", '"na"action"', "```\n"),
    ("prompt_tools", "", '{"tool":"'),
    ("any", "", '{"event":"a:b",'),
    ("any", "", '{"tool":"'),
    ("any", "", "{'event':{'event':~~~"),
    ("any", "", "@tool x\n"),
    ("any", "", "<|channel|>"),
)
JSON_PIECES: Final = (
    *"{}[]:,\"\\\n '`>~@|<(=",
    '{"',
    '"}',
    '\\"',
    "\\'",
    "\\u0022",
    "```\n",
    "~~~\n",
    "\n{",
    ": ",
    '"event":"a:b"',
    '"data":{',
    '"type":"ksi_tool_use"',
    '"tool":"x"',
    '"arguments":{',
    '"action":{',
    '"name":"x"',
    "{'event':",
    "// c\n",
    "/*",
    "True",
    "1",
    "x",
    "<think>",
    "</think>",
)


class Shape(NamedTuple):
    """A text of which only the length is open, and what it was found to cost."""

    head: str
    unit: str
    growth: float
    micros: float  # per 1,000 characters


def text_of(head: str, unit: str, size: int) -> str:
    return head + repeated(unit, size) + TAIL


@lru_cache(maxsize=1)
def fragments() -> tuple[str, ...]:
    """Return pieces of markup: those of JSON, and the marks of every dialect, whole and cut."""
    marks = {marker for dialect in DIALECTS.values() for marker in dialect.markers}
    cut = {marker[: len(marker) // 2] for marker in marks if len(marker) > 4}
    return (*JSON_PIECES, *sorted(marks | cut))


def growth(head: str, unit: str, preset: str, size: int) -> float:
    """Return how much more a text costs that is twice as long."""
    return doubling(lambda each: extract(text_of(head, unit, each), PRESETS[preset]), size)


def search(draws: int, preset: str, seed: int = 0) -> Iterator[Shape]:
    """Yield the dearest shapes of *draws* under *preset*, the dearest first."""
    rng = random.Random(f"{preset}/{seed}")
    found: dict[str, Shape] = {}
    for _ in range(draws):
        head, unit = _draw(rng, list(found.values()))
        if unit not in found:
            found[unit] = _measured(head, unit, preset)
        if len(found) > 2 * KEPT:
            found = {each.unit: each for each in _dearest(list(found.values()))}
    yield from _dearest(list(found.values()))


def _draw(rng: random.Random, found: list[Shape]) -> tuple[str, str]:
    pieces = fragments()
    if found and rng.random() < 0.3:
        parent = rng.choice(found)
        return parent.head, parent.unit + rng.choice(pieces)
    head = "".join(rng.choices(pieces, k=rng.randrange(3)))
    return head, "".join(rng.choices(pieces, k=rng.randrange(1, 6)))


def _measured(head: str, unit: str, preset: str) -> Shape:
    once, twice = (
        seconds(lambda each: extract(text_of(head, unit, each), PRESETS[preset]), size)
        for size in (SIZE, 2 * SIZE)
    )
    ratio = twice / max(once, 1e-4)
    if ratio > SUSPECT:
        ratio = growth(head, unit, preset, SURE)
    return Shape(head, unit, ratio, twice / (2 * SIZE) * 1e9)


def _dearest(shapes: list[Shape]) -> list[Shape]:
    shapes.sort(key=lambda each: (each.growth <= SUSPECT, -each.micros))
    return shapes[:KEPT]


def main(draws: int, presets: list[str]) -> None:
    """Print what is dearest under each of *presets*."""
    for preset in presets or PRESETS:
        sys.stdout.write(f"{preset}\n{'growth':>8}{'us/1000':>10}  head | unit\n")
        for each in search(draws, preset):
            shape = f"{each.head!r} | {each.unit!r}"
            sys.stdout.write(f"{each.growth:8.2f}{each.micros:10.0f}  {shape}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300, sys.argv[2:])
