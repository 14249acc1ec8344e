"""What the blocks of dialects look like from afar: what a text without any of it cannot hold."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import msgspec

from ksi_daemon.extraction.dialects import FramedDialect, ObjectDialect
from ksi_daemon.extraction.frames import hints
from ksi_daemon.extraction.scanner import plan

__all__ = ["COMMON", "Glance", "glance_of"]

# Marks of layout too: these are looked for whatever the dialects are.
COMMON: Final = frozenset("`~>[")


class Glance(msgspec.Struct, frozen=True):
    """Of dialects: those that are an object, and what begins a block of the *framed* ones.

    That is one of *marks*, of which *others* are not COMMON, or the brace of an object that one of
    *openers* begins with. In a text without any brace it is one of *unbraced*.
    """

    objects: tuple[ObjectDialect, ...]
    framed: tuple[FramedDialect, ...]
    marks: tuple[str, ...]
    unbraced: tuple[str, ...]
    others: tuple[str, ...]
    openers: tuple[re.Pattern[str], ...]


@lru_cache(maxsize=64)
def glance_of(names: tuple[str, ...]) -> Glance:
    """Return what blocks of the dialects *names* look like."""
    wanted = plan(names)
    marks = {mark for dialect in wanted.framed for mark in hints(dialect)} - {"{"}
    unbraced = {mark for each in wanted.framed if not each.braced for mark in hints(each)}
    return Glance(
        wanted.dialects,
        wanted.framed,
        tuple(sorted(marks)),
        tuple(sorted(unbraced)),
        tuple(sorted(marks - COMMON)),
        tuple(each.opener for each in wanted.framed if "{" in hints(each)),
    )
