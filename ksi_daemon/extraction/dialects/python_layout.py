"""Where a list of calls in the syntax of Python is a call, though nothing marks it as one.

Code and prose hold such lists too. What they do not hold is one alone on lines that begin at the
margin, without indentation, nor one at the end of a sentence that is no code: there are none in two
gigabytes of source files and documents. Transcripts of Python do, behind a prompt, and everybody
prints objects that way, which is told from a call by the name of their class.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from ksi_daemon.extraction.python_literals import CALLEE

__all__ = ["WITH_KEYWORD", "Lead", "is_class_name", "is_meant", "is_told", "lead", "stands_alone"]

# Characters before a list that are looked at. A stream keeps so many, so this must not grow.
LOOK_BEHIND: Final = 64
# A list whose first call gives its first argument by keyword.
WITH_KEYWORD: Final = rf"\[\s*+{CALLEE}[ \t]*+\(\s*+[^\W\d]\w*+\s*+=(?!=)"

# What stands before a list: nothing, a line of anything, or the words of a sentence.
Lead = Literal["reply", "line", "sentence"]

_KEYWORD: Final = re.compile(WITH_KEYWORD)
_POSITIONAL: Final = re.compile(rf"\[\s*+{CALLEE}[ \t]*+\(\s*+[\"'0-9\[{{]")
_CLASS: Final = re.compile(r"(?:.*[./:])?_*[A-Z][A-Za-z0-9]*")
_MARKS: Final = ".:!?…。：！？"
_BEFORE: Final = f"\n \t>{_MARKS}"
_WORDS: Final = rf"[^=(){{}}\[\]<>`\"#|\\\n]*[{_MARKS}][ \t]*"
# It begins with a capital, or in a script that has none.
_SENTENCE: Final = re.compile(rf"[^\W\d_a-z]{_WORDS}")
_END_OF_SENTENCE: Final = re.compile(_WORDS)
_LINE_END: Final = re.compile(r"[ \t]*+(?:\r?\n|\Z|<\|)")
_NEXT_SENTENCE: Final = re.compile(r"[ \t]++[^\W\d_a-z]")
_TOLD: Final = re.compile(r"[ \t]*+(?:\n|[\r<][\s\S]|[^\s<])")
_PROMPTS: Final = (">>>", "...")
_THOUGHT_END: Final = "</think>"


def lead(text: str, start: int) -> Lead | None:
    """Say what stands before the list at *start*, None if it is nothing that leads to a call."""
    behind = max(0, start - LOOK_BEHIND)
    if start and text[start - 1] not in _BEFORE:
        return None
    if _opens_reply(text, start):
        return "reply"
    line = text.rfind("\n", behind, start) + 1
    if line == start:
        last = text.rfind("\n", behind, line - 1) + 1
        return None if text.startswith(_PROMPTS, last) else "line"
    sentence = _SENTENCE if line or not behind else _END_OF_SENTENCE
    line = line or behind
    if not _has_words(text[line:start]):
        return None
    return "sentence" if sentence.fullmatch(text, line, start) else None


def stands_alone(text: str, end: int, lead: Lead) -> bool:
    """Say whether what follows a list that ends at *end* leaves it one of calls."""
    if _LINE_END.match(text, end):
        return True
    return lead != "sentence" and _NEXT_SENTENCE.match(text, end) is not None


def is_told(text: str, end: int) -> bool:
    """Say whether more text cannot change what ``stands_alone`` says."""
    return _TOLD.match(text, end) is not None


def is_class_name(name: str) -> bool:
    """Say whether *name* is written as Python's classes are."""
    return _CLASS.fullmatch(name) is not None


def is_meant(text: str, start: int, lead: Lead) -> bool:
    """Say whether the list at *start*, which cannot be read, was meant for one of calls."""
    if _KEYWORD.match(text, start):
        return True
    return lead == "reply" and _POSITIONAL.match(text, start) is not None


def _opens_reply(text: str, start: int) -> bool:
    """Say whether before *start* there is nothing, or nothing but a thought."""
    if start <= LOOK_BEHIND and not text[:start].strip():
        return True
    return text[max(0, start - LOOK_BEHIND) : start].rstrip().endswith(_THOUGHT_END)


def _has_words(line: str) -> bool:
    """Say whether *line* ends a sentence of several words, as far as its script parts them."""
    said = line.strip()
    return said[-1:] in _MARKS and (" " in said or not said.isascii())
