"""Random JSON Schemas of tools, for properties. Most of them can be fitted, some cannot."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

__all__ = ["schemas"]

NAMES: Final = st.sampled_from(["path", "text", "count", "a_b", "naïve", "with space", "data"])
PATTERNS: Final = (
    "^[a-z]{3,5}$",
    r"^\d{4}-\d{2}$",
    "^(red|green)?x+$",
    r"^[^\s{}]+\.py$",
    "[A-Z]",
    r"^\+?[0-9 ()-]{7,}$",
    r"^v(?:\d+\.)*\d+$",
)
SCALARS: Final = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=12)
VALUES: Final = st.one_of(
    SCALARS, st.lists(SCALARS, max_size=2), st.dictionaries(NAMES, SCALARS, max_size=2)
)


def _with(draw: st.DrawFn, schema: dict[str, Any], *optional: tuple[str, Any]) -> dict[str, Any]:
    for key, values in optional:
        if draw(st.integers(0, 3)) == 0:
            schema[key] = draw(values)
    return schema


@st.composite
def _strings(draw: st.DrawFn) -> dict[str, Any]:
    least = draw(st.integers(0, 30))
    return _with(
        draw,
        {"type": "string"},
        ("minLength", st.just(least)),
        ("maxLength", st.integers(least, 2000)),
        ("pattern", st.sampled_from(PATTERNS)),
        ("default", st.text(max_size=8)),
        ("examples", st.lists(VALUES, max_size=2)),
        ("contentMediaType", st.just("text/markdown")),
        ("description", st.text(max_size=20)),
    )


@st.composite
def _numbers(draw: st.DrawFn) -> dict[str, Any]:
    low = draw(st.integers(-1000, 1000))
    return _with(
        draw,
        {"type": draw(st.sampled_from(["integer", "number"]))},
        ("minimum", st.just(low)),
        ("exclusiveMinimum", st.just(low)),
        ("maximum", st.integers(low, low + 100)),
        ("exclusiveMaximum", st.integers(low + 1, low + 100)),
        ("multipleOf", st.sampled_from([1, 2, 7, 0.5])),
        ("default", st.integers(-5, 5)),
    )


@st.composite
def _arrays(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    least = draw(st.integers(0, 3))
    return _with(
        draw,
        {"type": "array"},
        ("items", inner),
        ("prefixItems", st.lists(inner, min_size=1, max_size=2)),
        ("minItems", st.just(least)),
        ("maxItems", st.integers(least, 5)),
        ("uniqueItems", st.booleans()),
        ("contains", inner),
    )


@st.composite
def _objects(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    fields = draw(st.dictionaries(NAMES, inner, max_size=3))
    required = draw(st.lists(st.sampled_from(sorted(fields)), unique=True)) if fields else []
    if draw(st.integers(0, 5)) == 0:
        required.append("untold")
    return _with(
        draw,
        {"type": "object", "properties": fields, "required": required},
        ("additionalProperties", st.just(False) | inner),
        ("minProperties", st.integers(0, 2)),
        ("default", st.dictionaries(NAMES, VALUES, max_size=1)),
    )


def _choices(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.builds(
        lambda key, options: {key: options}, st.sampled_from(["anyOf", "oneOf", "allOf"]), several
    )


_LEAVES: Final = st.one_of(
    _strings(),
    _numbers(),
    st.sampled_from([{}, True, {"type": "boolean"}, {"type": "null"}]),
    st.builds(lambda value: {"const": value}, VALUES),
    st.builds(lambda values: {"enum": values}, st.lists(SCALARS, min_size=1, max_size=3)),
    st.builds(lambda kinds: {"type": kinds}, st.just(["string", "null"])),
    st.builds(lambda name: {"$ref": f"#/$defs/{name}"}, st.sampled_from("AB")),
)
_CONTAINERS: Final = st.one_of(_LEAVES, _arrays(_LEAVES), _objects(_LEAVES), _choices(_LEAVES))
_ANY: Final = st.one_of(_LEAVES, _arrays(_CONTAINERS), _objects(_CONTAINERS), _choices(_CONTAINERS))


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    """The schema of an object, with two definitions that it and they may refer to."""
    return {**draw(_objects(_ANY)), "$defs": {"A": draw(_ANY), "B": draw(_LEAVES)}}
