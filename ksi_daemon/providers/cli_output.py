"""What the command of a ``cli`` provider prints, read as a reply. Pure.

text         all of it is the reply
json         one value, and the reply is at a path in it
stream-json  a value a line; those that have certain fields hold the reply, or pieces of it
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import msgspec

from ksi_daemon.errors import ProviderError
from ksi_daemon.providers.failures import shown
from ksi_daemon.providers.model import Usage

__all__ = ["FORMATS", "Format", "Output", "Place", "place_of", "read_line", "read_whole"]

Output: TypeAlias = Literal["text", "json", "stream-json"]


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the text is: at *path*, keys and indices with dots between them.

    Of a stream, in the lines that have at each path of *where* the value that is given there, with
    *join* between them.
    """

    path: str
    where: dict[str, str | int | bool] = {}
    join: str = ""


class Format(msgspec.Struct, frozen=True):
    """What one value says: *text* if it holds any, *usage* if it says so."""

    text: str | None = None
    usage: Usage = Usage()


# What programs print that many have, as their own references tell.
FORMATS: Final[Mapping[tuple[str, str], Place]] = MappingProxyType(
    {
        ("claude", "json"): Place("result"),
        ("claude", "stream-json"): Place("result", {"type": "result"}),
        ("codex", "stream-json"): Place(
            "item.text", {"type": "item.completed", "item.type": "agent_message"}, "\n\n"
        ),
        ("gemini", "json"): Place("response"),
        ("gemini", "stream-json"): Place("content", {"type": "message", "role": "assistant"}),
    }
)


def place_of(program: str, output: Output, given: Place | None) -> Place | None:
    """Return where the reply is in the *output* of *program*; None: all of it is the reply.

    Raise ValueError if that is neither *given* nor known.
    """
    if output == "text":
        return None
    place = given or FORMATS.get((program, output))
    if place is None:
        raise ValueError(f"output {output!r} of {program!r} needs 'text', the place of the reply")
    return place


def read_whole(name: str, printed: str, place: Place) -> Format:
    """Return what *printed* says, which is one JSON value.

    Raise ProviderError if it is none, if the text is not where it should be, or if the value
    says that the command failed.
    """
    try:
        value = json.loads(printed)
    except (ValueError, RecursionError) as exc:
        raise _unreadable(name, printed) from exc
    _check(name, value)
    text = _at(value, place.path)
    if not isinstance(text, str):
        raise ProviderError(
            f"{name} printed JSON without a text at {place.path!r}",
            code="provider_protocol",
            hint="set the provider's 'text' to the place of the reply",
        )
    return Format(text, _usage(value))


def read_line(name: str, line: str, place: Place) -> Format:
    """Return what one *line* of a stream says; a line that is no JSON says nothing."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return Format()
    if not isinstance(value, dict):
        return Format()
    _check(name, value)
    is_text = all(_at(value, path) == wanted for path, wanted in place.where.items())
    text = _at(value, place.path) if is_text else None
    return Format(text if isinstance(text, str) else None, _usage(value))


def _check(name: str, value: Any) -> None:
    """Raise ProviderError if *value* says of itself that it is an error."""
    fields = value if isinstance(value, dict) else {}
    error = fields.get("error")
    if fields.get("is_error") is not True and not isinstance(error, str | dict):
        return
    said = error.get("message") if isinstance(error, dict) else error or fields.get("result")
    raise ProviderError(
        f"{name} reported an error",
        hint=f"it says: {shown(said, 200)}" if isinstance(said, str) and said else None,
    )


def _at(value: Any, path: str) -> Any:
    """Return what is at *path* in *value*, None if nothing is."""
    for key in path.split("."):
        if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        elif isinstance(value, dict):
            value = value.get(key)
        else:
            return None
    return value


def _usage(value: Any) -> Usage:
    """Return what *value* says of tokens. claude leaves those of its cache out of the input,
    codex does not."""

    def count(name: str) -> int:
        found = _at(value, f"usage.{name}")
        return found if type(found) is int and found > 0 else 0

    read = count("cache_read_input_tokens")
    asked = count("input_tokens") + count("cache_creation_input_tokens") + read
    return Usage(asked, count("output_tokens"), read or min(count("cached_input_tokens"), asked))


def _unreadable(name: str, printed: str) -> ProviderError:
    return ProviderError(
        f"{name} printed what is not JSON: {shown(printed)!r}",
        code="provider_protocol",
        hint="does the command have the option that makes it print JSON?",
    )
