"""JSON Schema, as far as it is needed to tell whether arguments fit one.

Read are the keywords of the 2020-12 draft that say what a value is (validation vocabulary and
applicators) and references within the document. What is not read refuses nothing: this serves to
show models what is right, not to check what they send. Schemas come from strangers, so the work is
bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from types import MappingProxyType, UnionType
from typing import Any, Final

from ksi_daemon.extraction.patterns import matches, parsed

__all__ = ["Document", "flaw", "same"]

MAX_STEPS: Final = 20_000
MAX_DEPTH: Final = 64

_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = MappingProxyType(
    {
        "null": lambda value: value is None,
        "boolean": lambda value: isinstance(value, bool),
        "integer": lambda value: _is_number(value) and value == int(value),
        "number": lambda value: _is_number(value),
        "string": lambda value: isinstance(value, str),
        "array": lambda value: isinstance(value, list),
        "object": lambda value: isinstance(value, Mapping),
    }
)


# What the keywords that are read here must hold.
_SHAPES: Final[Mapping[str, type | UnionType]] = MappingProxyType(
    {
        **dict.fromkeys(("properties", "patternProperties", "$defs", "dependentRequired"), dict),
        **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems", "enum", "examples"), list),
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), int | float),
        **dict.fromkeys(("minProperties", "maxProperties", "multipleOf"), int | float),
        **dict.fromkeys(("minimum", "maximum"), int | float),
        **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), int | float),
        **dict.fromkeys(("$ref", "pattern", "format", "description"), str),
        "required": list,
        "type": str | list,
    }
)
_PERCENT: Final = re.compile(rb"%([0-9A-Fa-f]{2})")
_BY_NAME: Final = ("properties", "patternProperties", "$defs")
_LISTED: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_ALONE: Final = ("items", "contains", "not", "if", "then", "else", "propertyNames")


class _TooMuch(Exception):
    """There is more to be looked at than is worth it."""


class Document:
    """One schema with what it refers to, and the work that may still be spent on it."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.root = schema
        self._left = MAX_STEPS

    def resolve(self, reference: str) -> Any:
        """Return what a reference within the document stands for (RFC 6901), None if nothing."""
        found: Any = self.root
        if not reference.startswith("#") or reference[1:2] not in ("", "/"):
            return None
        for part in reference.split("/")[1:]:
            key = _decoded(part).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            else:
                found = found.get(key) if isinstance(found, Mapping) else None
        return found

    def fits(self, value: Any, schema: Any, *, unsure: bool = True) -> bool:
        """Say whether *value* is what *schema*, a part of the document, asks for.

        *unsure* is the answer where that is too much work to tell.
        """
        try:
            return self._fits(value, schema, 0)
        except _TooMuch:
            return unsure

    def spend(self) -> bool:
        """Take one step of the work that may be done; False if there is none left."""
        self._left -= 1
        return self._left > 0

    def _fits(self, value: Any, schema: Any, depth: int) -> bool:
        if not self.spend() or depth > MAX_DEPTH:
            raise _TooMuch
        if not isinstance(schema, Mapping):
            return schema is not False
        return (
            _is_allowed(value, schema)
            and all(self._fits(value, each, depth + 1) for each in self._all(schema))
            and self._fits_choices(value, schema, depth + 1)
            and self._fits_within(value, schema, depth + 1)
        )

    def _all(self, schema: Mapping[str, Any]) -> list[Any]:
        """Return the schemas that hold as well where *schema* does."""
        others = list(schema.get("allOf", ()))
        if isinstance(schema.get("$ref"), str):
            others.append(self.resolve(schema["$ref"]))
        return others

    def _fits_choices(self, value: Any, schema: Mapping[str, Any], depth: int) -> bool:
        fits = self._fits
        if "anyOf" in schema and not any(fits(value, each, depth) for each in schema["anyOf"]):
            return False
        if "oneOf" in schema and sum(fits(value, each, depth) for each in schema["oneOf"]) != 1:
            return False
        if "not" in schema and fits(value, schema["not"], depth):
            return False
        if "if" not in schema:
            return True
        branch = "then" if fits(value, schema["if"], depth) else "else"
        return fits(value, schema.get(branch, True), depth)

    def _fits_within(self, value: Any, schema: Mapping[str, Any], depth: int) -> bool:
        if isinstance(value, list):
            return self._fits_items(value, schema, depth)
        if isinstance(value, Mapping):
            return self._fits_members(value, schema, depth)
        return True

    def _fits_items(self, value: list[Any], schema: Mapping[str, Any], depth: int) -> bool:
        heads = schema.get("prefixItems", [])
        fits_head = all(
            self._fits(each, head, depth) for each, head in zip(value, heads, strict=False)
        )
        rest = schema.get("items", True)
        if not fits_head or not all(self._fits(each, rest, depth) for each in value[len(heads) :]):
            return False
        if "contains" not in schema:
            return True
        count = sum(self._fits(each, schema["contains"], depth) for each in value)
        schema = {"minContains": 1, **schema}
        return _is_in(count, schema, "minContains", "maxContains")

    def _fits_members(
        self, value: Mapping[str, Any], schema: Mapping[str, Any], depth: int
    ) -> bool:
        names = schema.get("propertyNames", True)
        return all(
            self._fits(name, names, depth)
            and all(self._fits(each, wanted, depth) for wanted in _for_member(name, schema))
            for name, each in value.items()
        )


def flaw(schema: Any) -> str | None:
    """Return what makes *schema* none, as ``path: reason``; None if it can be used."""
    waiting = [("", schema)]
    while waiting:
        path, each = waiting.pop()
        if isinstance(each, bool):
            continue
        if not isinstance(each, Mapping):
            return f"{path or '/'}: a schema is an object"
        for key, shape in _SHAPES.items():
            if key in each and not isinstance(each[key], shape):
                return f"{path}/{key}: not of the right type"
        if not all(isinstance(name, str) for name in each.get("required", ())):
            return f"{path}/required: names are text"
        waiting += ((f"{path}/{key}", part) for key, part in _parts(each))
    return None


def _parts(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the schemas directly in *schema*, each with the path to it."""
    for key in _BY_NAME:
        yield from ((f"{key}/{name}", each) for name, each in schema.get(key, {}).items())
    for key in _LISTED:
        yield from ((f"{key}/{n}", each) for n, each in enumerate(schema.get(key, ())))
    yield from ((key, schema[key]) for key in (*_ALONE, "additionalProperties") if key in schema)


def same(one: Any, other: Any) -> bool:
    """Say whether two values are equal as JSON: 1 is 1.0, and true is no number."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


def _decoded(part: str) -> str:
    """Return a part of a URI's fragment without its percent signs (RFC 6901, section 6)."""
    octets = _PERCENT.sub(lambda found: bytes.fromhex(found[1].decode()), part.encode())
    return octets.decode(errors="replace")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _for_member(name: str, schema: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what the value of the member *name* must fit."""
    known = name in schema.get("properties", {})
    if known:
        yield schema["properties"][name]
    for pattern, wanted in schema.get("patternProperties", {}).items():
        node = parsed(pattern)
        if node is None or matches(node, name):
            known = True
            yield wanted if node is not None else True
    if not known:
        yield schema.get("additionalProperties", True)


def _is_allowed(value: Any, schema: Mapping[str, Any]) -> bool:
    """Say whether *value* fits what *schema* says of it without any further schema."""
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_TYPES[kind](value) for kind in kinds if kind in _TYPES):
        return False
    if "const" in schema and not same(value, schema["const"]):
        return False
    if "enum" in schema and not any(same(value, each) for each in schema["enum"]):
        return False
    if isinstance(value, str):
        return _is_in(len(value), schema, "minLength", "maxLength") and _has_pattern(value, schema)
    if isinstance(value, list):
        unique = not schema.get("uniqueItems") or not _repeats(value)
        return unique and _is_in(len(value), schema, "minItems", "maxItems")
    if isinstance(value, Mapping):
        return _has_members(value, schema)
    return not _is_number(value) or _is_in_range(value, schema)


def _is_in(size: float, schema: Mapping[str, Any], least: str, most: str) -> bool:
    return bool(schema.get(least, size) <= size <= schema.get(most, size))


def _has_pattern(value: str, schema: Mapping[str, Any]) -> bool:
    node = parsed(schema["pattern"]) if "pattern" in schema else None
    return node is None or matches(node, value)


def _repeats(value: list[Any]) -> bool:
    return any(same(each, other) for n, each in enumerate(value) for other in value[:n])


def _has_members(value: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    needed = {*schema.get("required", ())}
    for name, others in schema.get("dependentRequired", {}).items():
        if name in value:
            needed.update(others)
    return needed <= value.keys() and _is_in(len(value), schema, "minProperties", "maxProperties")


def _is_in_range(value: float, schema: Mapping[str, Any]) -> bool:
    low, high = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if (low is not None and value <= low) or (high is not None and value >= high):
        return False
    step = schema.get("multipleOf")
    if step and Decimal(str(value)) % Decimal(str(step)):
        return False
    return _is_in(value, schema, "minimum", "maximum")
