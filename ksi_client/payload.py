"""The data of an event as a command line spells them: a JSON object, and fields."""

from __future__ import annotations

import sys
from typing import Any

import click
import msgspec

__all__ = ["payload"]


def payload(words: tuple[str, ...]) -> dict[str, Any]:
    """Return the data that *words* spell: a JSON object first, then fields.

    Raise UsageError for what is neither.
    """
    fields = words
    data: dict[str, Any] = {}
    if words and (words[0] == "-" or words[0].lstrip().startswith("{")):
        text = sys.stdin.read() if words[0] == "-" else words[0]
        data, fields = _object(text), words[1:]
    return data | dict(map(_field, fields))


def _object(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise click.UsageError(f"the data are no JSON object: {exc}") from exc


def _field(word: str) -> tuple[str, Any]:
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise click.UsageError(f"{word!r} is neither a JSON object nor KEY=VALUE")
    try:
        return name, msgspec.json.decode(value)
    except (msgspec.MsgspecError, RecursionError):
        return name, value
