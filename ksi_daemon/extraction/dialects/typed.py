"""What the text of an argument stands for, in dialects that write arguments as plain text.

With the schema of the tool: a text for a string is taken as it is, never as JSON. Otherwise JSON of
one of the types that the schema allows is that value, and so are Python's ``True``, ``False`` and
``None``, which some chat templates write. If the schema allows a string too, every other text is
one. An array or object that is not quite JSON is mended as in other dialects, or refused. Any
other text that is not of its type stays a text: whoever checks arguments against the schema will
say so.

Without a schema: JSON that is no string is that value, and every other text is itself, quotes and
all. A string that would be taken for something else is written as JSON, in quotes; only then do
quotes not belong to the value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from ksi_daemon.extraction.dialects.base import Fault, Reading, Schemas
from ksi_daemon.extraction.dialects.framing import Body, Unread, mend_body, read_body
from ksi_daemon.extraction.reader import is_json, scan
from ksi_daemon.extraction.schemas import Document

__all__ = ["STRING", "Kinds", "Meant", "kinds_of", "read_json", "read_text", "write_text"]

# The JSON Schema types that a value may have; None if it may have any.
Kinds: TypeAlias = frozenset[str] | None

STRING: Final = frozenset({"string"})
MAX_DEPTH: Final = 16  # of schemas in schemas

_SPACE: Final = " \t\r\n"
_LITERALS: Final[Mapping[str, Any]] = {
    "null": None,
    "None": None,
    "true": True,
    "True": True,
    "false": False,
    "False": False,
}
_NUMBER: Final = re.compile(r"-?+[0-9][0-9.eE+-]*+")
_BARE_QUOTE: Final = re.compile(r'(?<!\\)"')
_BEFORE: Final = '{"":'  # makes any value a member of an object, which the readers want
_CONTAINERS: Final = frozenset({"array", "object"})


class Meant(msgspec.Struct, frozen=True):
    """What a text stands for, what was needed to read it, and which keys it holds twice."""

    value: Any
    repairs: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()


def kinds_of(tools: Schemas | None, tool: str, parameter: str) -> Kinds:
    """Return the types that *parameter* of *tool* may have, None if that is not known."""
    schema = (tools or {}).get(tool)
    if not isinstance(schema, Mapping):
        return None
    properties = schema.get("properties")
    wanted = properties.get(parameter) if isinstance(properties, Mapping) else None
    if wanted is None:
        wanted = schema.get("additionalProperties")
    return _kinds(Document(schema), wanted, 0)


def read_text(text: str, kinds: Kinds, reading: Reading) -> Meant | Fault:
    """Return what *text* stands for where a value of *kinds* is wanted.

    The fault is of code ``args_json``: an array or object that cannot be read.
    """
    if kinds is None:
        return _untyped(text, reading)
    bare = text.strip(_SPACE)
    if kinds == STRING:
        return Meant(text)
    found = _plain(bare)
    if found is not None and not kinds.isdisjoint(_kinds_of_value(found.value)):
        return found
    if "string" in kinds or kinds.isdisjoint(_CONTAINERS) or not bare.startswith(("[", "{")):
        return Meant(text)
    return found or _mended(bare, reading)


def read_json(text: str, reading: Reading) -> Meant | Fault:
    """Return the value that *text* is as JSON, for dialects that say that it is JSON."""
    bare = text.strip(_SPACE)
    found = _plain(bare)
    if found is not None:
        return found
    if bare.startswith(("[", "{")):
        return _mended(bare, reading)
    if is_json(bare):
        return Meant(scan(bare, 0)[0])
    return Fault("args_json", f"expected JSON, got {bare[:40]!r}")


def write_text(value: Any, kinds: Kinds) -> str:
    """Return the text that ``read_text`` takes for *value*.

    Raise ValueError for a number that JSON has no text for.
    """
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    if kinds is None and _is_taken_otherwise(value):
        return json.dumps(value, ensure_ascii=False)
    return value


def _untyped(text: str, reading: Reading) -> Meant | Fault:
    bare = text.strip(_SPACE)
    found = _plain(bare)
    if found is not None:
        return found
    quoted = _quoted(bare)
    if quoted is not None:
        return Meant(quoted)
    unescaped = _unescaped(bare)
    if unescaped is not None and not reading.repairs:
        return Fault("args_json", "expected JSON, but every quote in it is escaped")
    return unescaped or Meant(text)


def _is_taken_otherwise(text: str) -> bool:
    """Say whether *text*, as it is and without a schema, would be read as something else."""
    bare = text.strip(_SPACE)
    return any(found(bare) is not None for found in (_plain, _quoted, _unescaped))


def _quoted(bare: str) -> str | None:
    """Return the string that *bare* is in JSON, if it would be something else without its quotes.

    Each further level of quotes doubles the backslashes, so there are few.
    """
    if not (bare.startswith('"') and bare.endswith('"') and is_json(bare)):
        return None
    text = scan(bare, 0)[0]
    return text if _is_taken_otherwise(text) else None


def _plain(bare: str) -> Meant | None:
    """Return the value that *bare* is as JSON, or as a literal of Python; None for a string."""
    if bare in _LITERALS:
        return Meant(_LITERALS[bare])
    if bare.startswith(("[", "{")):
        return _container(bare)
    if _NUMBER.fullmatch(bare) and is_json(bare):
        return Meant(scan(bare, 0)[0])
    return None


def _container(bare: str) -> Meant | None:
    if not bare.endswith(("]", "}")):
        return None
    try:
        value, end = scan(bare, 0)
    except (StopIteration, ValueError, RecursionError):
        body = read_body(f"{_BEFORE}{bare}}}", 0, _EXACT)
        return _member(bare, body) if isinstance(body, Body) else None
    return Meant(value) if end == len(bare) else None


def _mended(bare: str, reading: Reading) -> Meant | Fault:
    """Return the array or object that *bare* almost is, or what is wrong with it."""
    piece = f"{_BEFORE}{bare}}}"
    body = read_body(piece, 0, reading)
    if isinstance(body, Unread):
        told = body.fault.message.removesuffix(" of the block")
        mended = mend_body(piece, 0, len(piece), reading, keys=("",), complete=True)
        found = _member(bare, mended) if mended else None
    else:
        told, found = "it goes on behind its end", _member(bare, body)
    if found is None and reading.repairs:
        found = _unescaped(bare)
    return found or Fault("args_json", f"expected JSON, but {told}")


def _member(bare: str, body: Body) -> Meant | None:
    """Return the one member of *body*, which was put around *bare*, if *bare* is all of it."""
    if "" in body.repeated or body.value.keys() != {""}:
        return None
    if not body.repairs and body.end != len(_BEFORE) + len(bare) + 1:
        return None
    return Meant(body.value[""], body.repairs, body.repeated)


def _unescaped(bare: str) -> Meant | None:
    """Return the array or object that *bare* is when every quote in it is escaped once too often.

    Nothing else can be meant: without a quote of its own it is no JSON as it stands.
    """
    if '"' not in bare or not bare.startswith(("[", "{")) or _BARE_QUOTE.search(bare):
        return None
    try:
        text, _ = scan(f'"{bare}"', 0)
    except (StopIteration, ValueError):
        return None
    # If a quote of its own ended the text early, a backslash is the last of it.
    found = _container(text)
    return Meant(found.value, ("escaped_quotes",), found.repeated) if found else None


def _kinds(document: Document, schema: Any, depth: int) -> Kinds:
    """Return the types that *schema* allows; None if any, or if that is too much to tell."""
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH or not document.spend():
        return None
    claims = [_named(schema), _of_values(schema)]
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list):
            claims.append(_any_of(_kinds(document, each, depth + 1) for each in schema[key]))
    if isinstance(schema.get("$ref"), str):
        claims.append(_kinds(document, document.resolve(schema["$ref"]), depth + 1))
    if isinstance(schema.get("allOf"), list):
        claims += [_kinds(document, each, depth + 1) for each in schema["allOf"]]
    return _all_of(claims)


def _named(schema: Mapping[str, Any]) -> Kinds:
    told = schema.get("type")
    if isinstance(told, list):
        kinds = frozenset(each for each in told if isinstance(each, str))
    elif isinstance(told, str):
        kinds = frozenset({told})
    elif "properties" in schema or "items" in schema:
        return frozenset({"object" if "properties" in schema else "array"})
    else:
        return None
    return kinds | {"integer"} if "number" in kinds else kinds


def _of_values(schema: Mapping[str, Any]) -> Kinds:
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(values, list) or not values:
        return None
    return frozenset().union(*map(_kinds_of_value, values))


def _any_of(claims: Iterable[Kinds]) -> Kinds:
    found: set[str] = set()
    for claim in claims:
        if claim is None:
            return None
        found |= claim
    return frozenset(found) if found else None


def _all_of(claims: Iterable[Kinds]) -> Kinds:
    known = [claim for claim in claims if claim is not None]
    return frozenset.intersection(*known) if known else None


def _kinds_of_value(value: Any) -> frozenset[str]:
    """Return the types of JSON Schema that *value* has: 1.0 is an integer as well."""
    match value:
        case None:
            return frozenset({"null"})
        case bool():
            return frozenset({"boolean"})
        case int():
            return frozenset({"integer", "number"})
        case float():
            return frozenset({"number", "integer"} if value.is_integer() else {"number"})
        case str():
            return STRING
        case list():
            return frozenset({"array"})
    return frozenset({"object"})


_EXACT: Final = Reading(strict=True, repairs=False, max_depth=1 << 30)
