"""What models could write: arguments, calls in every dialect, prose around them, and debris.

All of it is drawn from the registry of dialects and the table of presets, so that a new one is
held to the properties without an edit here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from hypothesis import reject, settings
from hypothesis import strategies as st

from ksi_daemon.extraction import PRESETS, Extraction, Protocol, protocol
from ksi_daemon.extraction.dialects import DIALECTS

__all__ = [
    "LENIENT",
    "NAMES",
    "SOME",
    "Written",
    "arguments",
    "brace_prose",
    "calls_of",
    "debris",
    "lenient",
    "lined_up",
    "prose",
    "rendered",
    "written",
]

# There are hundreds of these tests, one a dialect and preset, so that each may be short.
SOME: Final = settings(max_examples=max(1, settings.default.max_examples // 5))
NAMES: Final = ("notes:save", "agent:status", "files:write")
# One protocol for each dialect alone, and every preset as it is used on texts with prose.
LENIENT: Final[Mapping[str, Protocol]] = MappingProxyType(
    {
        **{name: protocol("any", dialects=(name,)) for name in DIALECTS},
        **{f"preset {name}": protocol(name, mode="lenient", dedupe=False) for name in PRESETS},
    }
)

_keys = st.sampled_from(["path", "content", "n", "é", "data", "name", "arguments"]) | st.text(
    st.characters(categories=("Ll", "Nd"), max_codepoint=0x17F), min_size=1, max_size=6
).filter(str.isidentifier)
_DELICATE: Final = "\"'`\\{}[]()<>|~@:;,.=#/\n\r\t 0aé\u2028\u3000\x00\x1b\x7f\U0001f600▁｜“”"
_texts = (
    st.text(max_size=30)
    | st.text(st.sampled_from(_DELICATE), max_size=30)
    | st.sampled_from(
        [
            "",
            " ",
            "null",
            "true",
            "None",
            "12",
            "-0",
            "1e5",
            "[]",
            "{}",
            "\\",
            "\n",
            "\n\nlead and trail\n\n",
            "```json\n{}\n```",
            "~~~",
            "--- content\nx",
            "it's",
            'say "hi"',
            "</parameter>",
            "</tool_call>",
            "<think>",
        ]
    )
)
_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _texts
)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
)
arguments: Final = st.dictionaries(_keys, _values, max_size=4)


class Written(NamedTuple):
    """A call as it was meant, and its text in *dialect*."""

    dialect: str
    name: str
    args: dict[str, Any]
    text: str

    @property
    def meant(self) -> tuple[str, dict[str, Any]]:
        return self.name, self.args


# Nothing that any dialect could take for a beginning.
prose: Final = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="{}[]<>`~@\"'‘’“”|:"), max_size=60
) | st.sampled_from(
    [
        "",
        "I'll look at it first.",
        "Sure! Here is what I'd do, in two steps.",
        "Résumé: done – next.",
        "1. read\n2. write\n",
        "日本語の文章です。",
    ]
)
# Braces and quotes that open and close nothing.
brace_prose: Final = st.sampled_from(
    [
        "set {x | x > 0 and",
        'say {"oops and then',
        '{"a": {"b":',
        "} } ] {{{",
        'a " quote',
        "it's {",
        "[1, 2",
        "f(x) { return {}; }",
        "`{`",
        "(a[0], {",
        "<b>",
        "x <- y | z",
    ]
)


def rendered(dialect: str, name: str, args: Mapping[str, Any], id: str = "ksiu_01") -> Written:
    """Write a call in *dialect*; drop the example if the dialect cannot write it for certain."""
    try:
        text = DIALECTS[dialect].write(name, args, id)
    except ValueError:
        reject()
    return Written(dialect, name, dict(args), text)


@st.composite
def written(draw: st.DrawFn, dialects: tuple[str, ...] = tuple(DIALECTS)) -> Written:
    """A call in one of *dialects*."""
    dialect = draw(st.sampled_from(dialects))
    return rendered(dialect, draw(st.sampled_from(NAMES)), draw(arguments))


def calls_of(result: Extraction) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.args) for call in result.calls]


def lined_up(*pieces: str) -> str:
    """Put each of *pieces* on lines of its own."""
    return "\n".join(pieces)


def lenient(name: str) -> Protocol:
    return LENIENT[name]


_HARMLESS: Final = ("{", "}", "[", "]", '"', "'", "\\", ":", ",", "\n", " ", "(", ")", "=", "x")
_MARKS: Final = (
    "```",
    "```json\n",
    "~~~",
    "<think>",
    "</think>",
    "> ",
    "//",
    "/*",
    "“",
    "null",
    "None",
    "1",
    "\ud800",
    "\x00",
    "\r\n",
)
_markers: Final = tuple({marker for each in DIALECTS.values() for marker in each.markers})
_call_texts: Final = written().map(lambda each: each.text)


@st.composite
def _cut(draw: st.DrawFn) -> str:
    """A piece of a call, or a call that lacks a piece."""
    text = draw(_call_texts)
    start, end = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    return text[start:end] if draw(st.booleans()) else text[:start] + text[end:]


# A text of anything that means something to some dialect.
debris: Final = st.lists(
    st.sampled_from(_HARMLESS)
    | st.sampled_from(_MARKS)
    | st.sampled_from(_markers)
    | _call_texts
    | _cut()
    | _call_texts.map(json.dumps)
    | prose,
    max_size=8,
).map("".join)
