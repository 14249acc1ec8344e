"""Say what a tool takes, from the JSON Schema of its arguments, in the forms that models know."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ksi_daemon.extraction.schemas import Document

__all__ = ["closed", "fields", "parameters", "signature"]

# A schema that refers to itself has no end.
MAX_DEPTH: Final = 4

# Where schemas stand in a schema: in an object by name, in a list, or alone.
_NAMED: Final = ("properties", "patternProperties", "$defs", "definitions")
_LISTED: Final = ("prefixItems", "anyOf", "oneOf")
_ALONE: Final = ("items", "contains", "additionalProperties")
# What an object takes beyond its own members is told beside them.
_TOLD_BESIDE: Final = frozenset(
    {"allOf", "anyOf", "oneOf", "$ref", "if", "dependentSchemas", "patternProperties"}
)


def parameters(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each parameter: its name, its type in Python, whether it must be given."""
    kinds, known = _Kinds(schema, _PYTHON), list(_members(schema))
    if not known:
        yield "  (no parameters)"
    for name, field, required in known:
        yield f"  - {name} ({kinds.of(field)}) ({_need(field, required=required)})"


def signature(name: str, schema: Mapping[str, Any]) -> str:
    """Return *name* with its parameters in brackets, ``?`` for optional, ``T[]`` for a list."""
    kinds = _Kinds(schema, _SHORT)
    inner = ", ".join(
        f"{field}{'' if required else '?'}: {kinds.of(kind)}"
        for field, kind, required in _members(schema)
    )
    return f"{name}({inner})"


def fields(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each parameter, and within it for each of its own, with what it is for."""
    yield from _field_lines(schema, _Kinds(schema, _WORDS), "")


def closed(schema: Any) -> Any:
    """Return *schema* with every object in it closed: nothing but what is told may stand there.

    An object whose members are told in several places stays open, for none of them tells all.
    """
    if not isinstance(schema, Mapping):
        return schema
    found = dict(schema)
    for key in _NAMED:
        if isinstance(found.get(key), Mapping):
            found[key] = {name: closed(each) for name, each in found[key].items()}
    is_object = found.get("type") == "object" or "properties" in found
    if is_object and not _TOLD_BESIDE.isdisjoint(found):
        return found
    for key in _LISTED:
        if isinstance(found.get(key), list):
            found[key] = [closed(each) for each in found[key]]
    for key in _ALONE:
        if key in found:
            found[key] = closed(found[key])
    return _shut(found) if is_object else found


def _shut(schema: dict[str, Any]) -> dict[str, Any]:
    if isinstance(schema.get("additionalProperties"), Mapping):
        return schema
    required = schema.get("required", [])
    told = schema.get("properties", {})
    untold: dict[str, Any] = {name: {} for name in required if name not in told}
    if untold:
        schema["properties"] = {**told, **untold}
    return {**schema, "additionalProperties": False, "required": required}


class _Style(NamedTuple):
    """How types are called: by *names*, *many* of one, one of some *values*, *either* or.

    *unsaid* is what is left out of a choice: that a field may be null is of use to few.
    """

    names: Mapping[str, str]
    many: str
    values: Callable[[Iterable[Any]], str]
    either: str
    unsaid: str = ""


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


_PYTHON: Final[_Style] = _Style(
    MappingProxyType(
        {
            "string": "str",
            "integer": "int",
            "number": "float",
            "boolean": "bool",
            "array": "list",
            "object": "dict",
            "null": "None",
            "any": "Any",
        }
    ),
    "list[{}]",
    lambda values: f"Literal[{', '.join(map(repr, values))}]",
    " | ",
)
_SHORT: Final = _Style(
    MappingProxyType({}), "{}[]", lambda values: " | ".join(map(_as_json, values)), " | "
)
_WORDS: Final = _Style(
    MappingProxyType({}),
    "list of {}",
    lambda values: " or ".join(map(_as_json, values)),
    " or ",
    "null",
)


class _Kinds:
    """The types of one document in the words of a style."""

    def __init__(self, schema: Mapping[str, Any], style: _Style) -> None:
        self._document = Document(schema)
        self._style = style

    def resolved(self, field: Any) -> Mapping[str, Any]:
        """Return what *field* says, in the place of a reference what that refers to."""
        for _ in range(MAX_DEPTH):
            if not isinstance(field, Mapping) or not isinstance(field.get("$ref"), str):
                break
            rest = {key: value for key, value in field.items() if key != "$ref"}
            target = self._document.resolve(field["$ref"])
            field = {**target, **rest} if isinstance(target, Mapping) else rest
        return field if isinstance(field, Mapping) else {}

    def of(self, field: Any, depth: int = 0) -> str:
        """Return what a value of *field* is called."""
        style, field = self._style, self.resolved(field)
        if "const" in field:
            return style.values([field["const"]])
        if "enum" in field:
            return style.values(field["enum"])
        choices = field.get("anyOf") or field.get("oneOf")
        if choices and depth < MAX_DEPTH:
            named = dict.fromkeys(self.of(each, depth + 1) for each in choices)
            return style.either.join(each for each in named if each != style.unsaid)
        kinds = field.get("type", "object" if "properties" in field else "any")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        return style.either.join(self._of_type(str(kind), field, depth) for kind in kinds)

    def _of_type(self, kind: str, field: Mapping[str, Any], depth: int) -> str:
        name = self._style.names.get(kind, kind)
        if kind != "array" or depth >= MAX_DEPTH:
            return name
        if "items" not in field:
            return name if self._style is _PYTHON else self._style.many.format("any")
        inner = self.of(field["items"], depth + 1)
        several = self._style is _SHORT and self._style.either in inner
        return self._style.many.format(f"({inner})" if several else inner)


def _members(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any, bool]]:
    """Yield the name and the schema of each member of an object, and whether it is required."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        yield name, field, name in required


def _field_lines(
    schema: Mapping[str, Any], kinds: _Kinds, indent: str, depth: int = 0
) -> Iterator[str]:
    for name, field, required in _members(kinds.resolved(schema)):
        told = kinds.resolved(field)
        need = ", required" if required else _default(told)
        about = " ".join(str(told.get("description", "")).split())
        yield f"{indent}- {name} ({kinds.of(field)}{need}){f': {about}' if about else ''}"
        inner = told.get("items", {}) if told.get("type") == "array" else told
        if depth < MAX_DEPTH:
            yield from _field_lines(kinds.resolved(inner), kinds, f"{indent}  ", depth + 1)


def _default(field: Mapping[str, Any]) -> str:
    return "" if field.get("default") is None else f", default {_as_json(field['default'])}"


def _need(field: Any, *, required: bool) -> str:
    if required:
        return "required"
    told = isinstance(field, Mapping) and "default" in field
    return f"optional, default: {_plain(field['default'])}" if told else "optional"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else _as_json(value)
