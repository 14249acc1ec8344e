"""Describe a Python function as a tool: a schema from its signature, words from its docstring.

What a model cannot give is hidden: the object or the context that a function is called with, and
what it takes beyond its named parameters. Nothing is called or imported here; annotations that are
text are looked up in the function's own module.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, get_type_hints

import msgspec

from ksi_daemon.extraction.prompt import Tool

__all__ = ["arguments", "tool_of"]

_HIDDEN: Final = frozenset({"self", "cls", "ctx", "context"})
_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

_SECTIONS: Final = ("Args:", "Arguments:", "Parameters:")
_ENTRY: Final = re.compile(r"\*{0,2}(\w+)(?: ?\([^)]*\))?:\s*(.*)")
_FIELD: Final = re.compile(r":param (?:[^:]*\s)?(\w+):\s*(.*)")


def tool_of(function: Callable[..., Any], name: str | None = None) -> Tool:
    """Return *function* as a tool called *name*, by default as the function is.

    The description is the first line of the docstring; what it says of a parameter, under ``Args:``
    or behind ``:param name:``, is told with that. A parameter without an annotation, or with
    one that JSON has nothing like, takes any value; one without a default is required.
    """
    taken, doc = list(_taken(function)), inspect.getdoc(function) or ""
    words = _words(doc)
    schemas, components = _schemas(list(arguments(function).values()))
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            each.name: {**words.get(each.name, {}), **schema, **_default(each)}
            for each, schema in zip(taken, schemas, strict=True)
        },
        "required": [each.name for each in taken if each.default is inspect.Parameter.empty],
    }
    if components:
        schema["$defs"] = components
    first, _, _ = doc.partition("\n")
    own_name: str = getattr(function, "__name__", type(function).__name__)
    return Tool(name or own_name, first.strip(), schema)


def arguments(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the type of each parameter that a model gives, Any where JSON has nothing like it."""
    hints = _hints(function)
    kinds = {each.name: hints.get(each.name, Any) for each in _taken(function)}
    return {name: kind if _has_schema(kind) else Any for name, kind in kinds.items()}


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError):  # of a name that exists for type checkers only
        return {}


def _taken(function: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in _HIDDEN and parameter.kind not in _VARIADIC:
            yield parameter


def _schemas(kinds: list[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the schema of each of *kinds*, and those that they refer to."""
    beside: dict[str, Any] = {}

    def described(kind: Any) -> dict[str, Any]:
        schema = _own_schema(kind)
        beside.update(schema.pop("$defs", {}))
        return schema

    schemas, components = msgspec.json.schema_components(
        kinds, ref_template="#/$defs/{name}", schema_hook=described
    )
    return list(schemas), {**beside, **components}


def _has_schema(kind: Any) -> bool:
    try:
        msgspec.json.schema(kind, schema_hook=_own_schema)
    except (TypeError, RuntimeError, NotImplementedError):
        return False
    return True


def _own_schema(kind: Any) -> dict[str, Any]:
    """Return the schema that a pydantic model has of itself."""
    describe = getattr(kind, "model_json_schema", None)
    if describe is None:
        raise NotImplementedError
    return dict(describe())


def _words(doc: str) -> dict[str, dict[str, str]]:
    """Return what the docstring *doc* says of each parameter, as part of a schema."""
    found: dict[str, list[str]] = {}
    margin: int | None = None  # of the names in a section of arguments; None outside of one
    said: list[str] = []
    for line in doc.splitlines():
        text, indent = line.strip(), len(line) - len(line.lstrip())
        field = _FIELD.match(text)
        entry = _ENTRY.match(text) if margin is not None and indent else None
        if text in _SECTIONS:
            margin, said = 0, []
        elif field is not None:
            said = found.setdefault(field[1], [field[2]])
        elif not text or text.startswith(":") or (margin is not None and not indent):
            margin, said = (margin if not text else None), []
        elif entry is not None and margin in (0, indent):
            margin, said = indent, found.setdefault(entry[1], [entry[2]])
        else:
            said.append(text)
    told = {name: " ".join(lines).strip() for name, lines in found.items()}
    return {name: {"description": words} for name, words in told.items() if words}


def _default(parameter: inspect.Parameter) -> dict[str, Any]:
    if parameter.default is inspect.Parameter.empty:
        return {}
    try:
        return {"default": msgspec.to_builtins(parameter.default)}
    except TypeError:
        return {}
