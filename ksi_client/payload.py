"""The data of an event as a command line spells them: a JSON object, and fields."""

from __future__ import annotations

import sys
from typing import Any

import click
import msgspec

__all__ = ["json_object", "payload", "target_of"]


def payload(words: tuple[str, ...]) -> dict[str, Any]:
    """Return the data that *words* spell: a JSON object first, then fields.

    Raise UsageError for what is neither.
    """
    fields = words
    data: dict[str, Any] = {}
    if words and (words[0] == "-" or words[0].lstrip().startswith("{")):
        text = sys.stdin.read() if words[0] == "-" else words[0]
        data, fields = json_object(text, "the data"), words[1:]
    return data | dict(map(_field, fields))


def json_object(text: str, what: str) -> dict[str, Any]:
    """Return the object that *text* is; raise UsageError that says so of *what* it was to be."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise click.UsageError(f"{what}: no JSON object: {exc}") from exc


def target_of(word: str) -> str | dict[str, str]:
    """Return what a rule or a timer does: the event of that name, or a message to an agent."""
    return word if ":" in word else {"agent": word}


def _field(word: str) -> tuple[str, Any]:
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise click.UsageError(f"{word!r} is neither a JSON object nor KEY=VALUE")
    try:
        return name, msgspec.json.decode(value)
    except (msgspec.MsgspecError, RecursionError):
        return name, value
