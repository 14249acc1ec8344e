"""Front matter: the YAML between two lines of dashes at the head of a Markdown file. Pure.

How its YAML is read, which may come from strangers, ``strict_yaml`` says.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ksi_daemon.errors import ComponentError

__all__ = ["lines", "mapping", "split"]

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
    # It would take a tenth of the daemon's start.
    from ksi_daemon import strict_yaml

    try:
        # Before it are the dashes.
        fields = strict_yaml.load(front, first_line=2)
    except strict_yaml.NotYaml as exc:
        raise ComponentError(f"{name!r}: front matter is not usable YAML: {exc}") from exc
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
