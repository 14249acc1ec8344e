"""Front matter: the YAML between two lines of dashes at the head of a Markdown file. Pure.

YAML from strangers is read with what can do harm taken out (FAULTS.md section 4): no tags, no
aliases, no deep nesting; and all that is not plainly something else is text.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

from ksi_daemon.errors import ComponentError

__all__ = ["MAX_DEPTH", "lines", "mapping", "split"]

MAX_DEPTH: Final = 20
_FRONT: Final = re.compile(r"\A---[ \t]*\r?\n(.*?)(?:\r?\n)?^---[ \t]*(?:\r?\n|\Z)", re.S | re.M)
_KEY: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*):(?:[ \t]+(.*))?")
_QUOTES: Final = ('"', "'")


def split(text: str) -> tuple[str, str]:
    """Return the front matter of *text*, empty if there is none, and what stands behind it."""
    text = text.removeprefix("\ufeff")  # some editors put a byte order mark in front
    front = _FRONT.match(text)
    return (front[1], text[front.end() :]) if front else ("", text)


def mapping(front: str, name: str) -> dict[str, Any]:
    """Return the fields of *front*; raise ComponentError if it is not a YAML mapping."""
    try:
        _check_structure(front)
        fields = yaml.load(front, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as exc:
        message = f"{name!r}: front matter is not usable YAML: {_reason(exc)}"
        raise ComponentError(message) from exc
    if fields is None:
        return {}
    if not isinstance(fields, dict) or not all(isinstance(key, str) for key in fields):
        raise ComponentError(f"{name!r}: front matter must be a mapping with text keys")
    return fields


def lines(front: str) -> dict[str, str]:
    """Return the fields of *front* as texts, read line by line, whether it is YAML or not.

    Other programs take ``description: Use it when: asked``, which YAML does not. A line without
    a key at its beginning goes on with the value before.
    """
    fields: dict[str, list[str]] = {}
    value: list[str] = []
    for line in front.splitlines():
        key = _KEY.fullmatch(line.rstrip())
        if key:
            value = fields.setdefault(key[1], [])
        value.append(key[2] or "" if key else line.strip())
    return {key: _unquoted(" ".join(filter(None, words))) for key, words in fields.items()}


def _unquoted(text: str) -> str:
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in _QUOTES
    return text[1:-1] if is_quoted else text


class _Loader(yaml.CSafeLoader):
    """YAML as front matter needs it: strings stay strings."""


# Only true, false, null and whole numbers are not strings: "no" is not false, 1.10 is not 1.1,
# and there are no dates.
_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:bool", r"true|false", "tf"),
    ("tag:yaml.org,2002:null", r"null|~|", ["n", "~", ""]),
    ("tag:yaml.org,2002:int", r"-?(0|[1-9][0-9]{0,17})", "-0123456789"),
):
    _Loader.add_implicit_resolver(_tag, re.compile(rf"(?:{_pattern})\Z"), list(_first))


def _reason(exc: Exception) -> str:
    """Return what is wrong in one line, with its place in the file."""
    if not isinstance(exc, yaml.MarkedYAMLError) or exc.problem_mark is None:
        return " ".join(str(exc).split())
    # Lines of the file: one is the dashes, and the mark counts from 0.
    place = f"line {exc.problem_mark.line + 2}, column {exc.problem_mark.column + 1}"
    return f"{exc.problem} at {place}"


def _check_structure(text: str) -> None:
    """Raise YAMLError for aliases (a few of them make gigabytes) and for deep nesting."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise yaml.YAMLError(f"nests deeper than {MAX_DEPTH}")
