"""Arguments that fit a JSON Schema: what a model is shown as an example of a call.

Examples are proposed and checked: what is yielded fits, or there is none. What the schema itself
offers comes first (a constant, an enumeration, its examples, its default), then the plainest value
of the type that the limits allow. A member that is not required is left out where it can be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, Final

from ksi_daemon.extraction.patterns import matching, parsed
from ksi_daemon.extraction.schemas import Document, same

__all__ = ["example_args", "fits"]

MAX_DEPTH: Final = 8
MAX_ITEMS: Final = 16
MAX_PROPOSED: Final = 24
# What a schema that is none is known by.
_MALFORMED: Final = (TypeError, ValueError, AttributeError, KeyError, ArithmeticError)

_FORMATS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "date-time": "2026-01-31T12:00:00Z",
        "date": "2026-01-31",
        "time": "12:00:00Z",
        "duration": "PT1H",
        "email": "name@example.org",
        "hostname": "example.org",
        "uri": "https://example.org/",
        "uri-reference": "/",
        "ipv4": "192.0.2.1",
        "ipv6": "2001:db8::1",
        "uuid": "00000000-0000-4000-8000-000000000000",
        "regex": "^a",
        "json-pointer": "/a",
    }
)
_WORDS: Final = ("text", "some text", "a", "b", "c", "d")
_ORDER: Final = ("string", "integer", "number", "boolean", "object", "array", "null")


def example_args(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return arguments that fit *schema*, its required ones; None if none can be made up."""
    try:
        for found in _Examples(schema).first({"type": "object", **schema}, 0):
            if isinstance(found, dict):
                return found
    except _MALFORMED:
        pass
    return None


def fits(args: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    """Say whether *args* fit *schema*; True of what is no schema."""
    try:
        return Document(schema).fits(args, schema)
    except _MALFORMED:
        return True


class _Examples:
    """What can be made up for one document."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._document = Document(schema)
        self._by_type: Mapping[str, Callable[[Mapping[str, Any], int], Iterator[Any]]] = {
            "string": self._strings,
            "integer": self._numbers,
            "number": self._numbers,
            "boolean": lambda schema, depth: iter((True, False)),
            "object": self._objects,
            "array": self._arrays,
            "null": lambda schema, depth: iter((None,)),
        }

    def first(self, schema: Any, depth: int) -> Iterator[Any]:
        """Yield some values that fit *schema*, the best one first."""
        proposed = self._proposed(schema, depth) if depth < MAX_DEPTH else iter(())
        for value in islice(proposed, MAX_PROPOSED):
            if self._document.fits(value, schema, unsure=False):
                yield value

    def _proposed(self, schema: Any, depth: int) -> Iterator[Any]:
        for plain in self._plain(schema, 0):
            if "const" in plain:
                yield plain["const"]
            yield from plain.get("enum", ())
            yield from plain.get("examples", ())
            if plain.get("default") is not None:
                yield plain["default"]
            for kind in _types(plain):
                yield from self._by_type[kind](plain, depth)

    def _plain(self, schema: Any, depth: int) -> Iterator[Mapping[str, Any]]:
        """Yield what *schema* comes to, without references and choices; one for each choice."""
        if not isinstance(schema, Mapping):
            schema = {}
        if depth > MAX_DEPTH or not self._document.spend():
            return
        own = dict(schema)
        if (reference := own.pop("$ref", None)) is not None:
            yield from self._both(own, self._document.resolve(reference), depth)
        elif "allOf" in own:
            first, *others = own.pop("allOf") or [{}]
            rest = {**own, "allOf": others} if others else own
            yield from self._both(rest, first, depth)
        elif choices := own.pop("anyOf", None) or own.pop("oneOf", None):
            # What a value is comes before that there may be none.
            for each in sorted(choices, key=_is_null):
                yield from self._both(own, each, depth)
        else:
            yield own

    def _both(self, own: Mapping[str, Any], other: Any, depth: int) -> Iterator[Mapping[str, Any]]:
        yield from self._plain(_merged(own, other if isinstance(other, Mapping) else {}), depth + 1)

    def _objects(self, schema: Mapping[str, Any], depth: int) -> Iterator[dict[str, Any]]:
        fields, required = schema.get("properties", {}), [*schema.get("required", ())]
        # First what must be there; where that is too little, one more after the other.
        names = list(dict.fromkeys([*required, *fields]))
        for count in range(len(dict.fromkeys(required)), len(names) + 1):
            members = {}
            for name in names[:count]:
                value = list(islice(self.first(fields.get(name, {}), depth + 1), 1))
                if not value:
                    break
                members[name] = value[0]
            else:
                yield members
        yield from self._open_objects(schema, depth)

    def _open_objects(self, schema: Mapping[str, Any], depth: int) -> Iterator[dict[str, Any]]:
        """Yield an object with as many members of any name as there must be."""
        count, wanted = schema.get("minProperties", 0), schema.get("additionalProperties", {})
        if schema.get("properties") or not 0 < count <= MAX_ITEMS:
            return
        names = islice(
            self.first(schema.get("propertyNames", {"type": "string"}), depth + 1), count
        )
        for value in islice(self.first(wanted, depth + 1), 1):
            yield {str(name): value for name in names}

    def _arrays(self, schema: Mapping[str, Any], depth: int) -> Iterator[list[Any]]:
        least = schema.get("minItems", 0)
        if not 0 <= least <= MAX_ITEMS:
            return
        heads = schema.get("prefixItems", [])
        for count in dict.fromkeys((max(least, len(heads), 1), max(least, len(heads)), least)):
            kinds = [*heads, *[schema.get("items", {})] * count][:count]
            items = self._items(kinds, depth, unique=bool(schema.get("uniqueItems")))
            if items is not None:
                yield items
        if "contains" in schema:
            yield from (
                [each] * max(least, 1) for each in self.first(schema["contains"], depth + 1)
            )

    def _items(self, kinds: list[Any], depth: int, *, unique: bool) -> list[Any] | None:
        """Return a value for each of *kinds*, all different if *unique*; None if there is none."""
        items: list[Any] = []
        for kind in kinds:
            for value in self.first(kind, depth + 1):
                if not unique or not any(same(value, item) for item in items):
                    items.append(value)
                    break
            else:
                return None
        return items

    def _strings(self, schema: Mapping[str, Any], depth: int) -> Iterator[str]:
        least, most = schema.get("minLength", 0), schema.get("maxLength")
        if schema.get("format") in _FORMATS:
            yield _FORMATS[schema["format"]]
        if "pattern" in schema:
            node = parsed(schema["pattern"])
            if node is None:
                return
            found = matching(node, least=least, **({} if most is None else {"most": most}))
            if found is not None:
                yield found
        for word in _WORDS:
            text = word if len(word) >= least else (f"{word} " * (least // len(word) + 1))[:least]
            yield text if most is None else text[:most]

    def _numbers(self, schema: Mapping[str, Any], depth: int) -> Iterator[float]:
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        high = schema.get("maximum", schema.get("exclusiveMaximum"))
        step = schema.get("multipleOf", 1) or 1
        yield 1
        for bound in (low, high):
            if bound is not None:
                nearest = math.ceil(bound / step) if bound is low else math.floor(bound / step)
                yield bound
                yield from (_whole((nearest + n) * step) for n in (0, 1, -1))
        if low is not None and high is not None:
            yield _whole((low + high) / 2)
        yield from (_whole(n * step) for n in (1, 0, 2, 3, 4, 5))


def _whole(number: float) -> float:
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _is_null(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "null"


def _types(schema: Mapping[str, Any]) -> list[str]:
    """Return the types that a value may have, those first that say more."""
    told = schema.get("type")
    if told is None:
        told = _implied(schema)
    kinds = [told] if isinstance(told, str) else told
    return [kind for kind in _ORDER if kind in kinds]


def _implied(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the types of a schema that tells none, those first of which its limits speak."""
    if "properties" in schema or "required" in schema:
        return ("object",)
    if "items" in schema or "prefixItems" in schema or "contains" in schema:
        return ("array",)
    if not {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}.isdisjoint(
        schema
    ):
        return ("integer", "number")
    return _ORDER


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema for what fits both, as far as one can be told; whoever uses it checks."""
    merged = {**other, **one}
    for key in one.keys() & other.keys():
        mine, yours = one[key], other[key]
        if key in ("properties", "patternProperties"):
            names = dict.fromkeys(chain(yours, mine))
            merged[key] = {name: _joined(mine.get(name), yours.get(name)) for name in names}
        elif key == "required":
            merged[key] = list(dict.fromkeys((*yours, *mine)))
        elif key == "enum":
            merged[key] = [each for each in mine if any(same(each, other) for other in yours)]
        elif key == "allOf":
            merged[key] = [*mine, *yours]
        elif key in ("anyOf", "oneOf"):
            merged[key] = mine
            merged["allOf"] = [*merged.get("allOf", ()), {key: yours}]
        elif key.startswith(("min", "exclusiveMin")):
            merged[key] = max(mine, yours)
        elif key.startswith(("max", "exclusiveMax")):
            merged[key] = min(mine, yours)
    return merged


def _joined(mine: Any, yours: Any) -> Any:
    if mine is None or yours is None:
        return yours if mine is None else mine
    return {"allOf": [mine, yours]}
