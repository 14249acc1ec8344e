"""Say what a tool takes, from the JSON Schema of its arguments, in the forms that models know."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

__all__ = ["closed", "parameters", "signature"]

_PYTHON: Final[Mapping[str, str]] = MappingProxyType(
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
)


def parameters(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each parameter: its name, its type in Python, whether it must be given."""
    fields = schema.get("properties", {})
    if not fields:
        yield "  (no parameters)"
    required = schema.get("required", ())
    for name, field in fields.items():
        yield f"  - {name} ({_python_type(field)}) ({_need(field, required=name in required)})"


def signature(name: str, schema: Mapping[str, Any]) -> str:
    """Return *name* with its parameters in brackets, ``?`` for optional, ``T[]`` for a list."""
    required = schema.get("required", ())
    inner = ", ".join(
        f"{field}{'' if field in required else '?'}: {_short_type(kind)}"
        for field, kind in schema.get("properties", {}).items()
    )
    return f"{name}({inner})"


def closed(schema: Any) -> Any:
    """Return *schema* with every object in it closed: nothing but what is told may stand there."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(value) for key, value in schema.items()}
    if found.get("type") == "object" and not isinstance(found.get("additionalProperties"), dict):
        found |= {"additionalProperties": False, "required": found.get("required", [])}
    return found


def _need(field: Mapping[str, Any], *, required: bool) -> str:
    if required:
        return "required"
    return f"optional, default: {_plain(field['default'])}" if "default" in field else "optional"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _python_type(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return f"Literal[{', '.join(map(repr, field['enum']))}]"
    if "anyOf" in field:
        return " | ".join(dict.fromkeys(_python_type(each) for each in field["anyOf"]))
    kind = _PYTHON.get(_kind(field), "Any")
    return f"list[{_python_type(field['items'])}]" if kind == "list" and "items" in field else kind


def _short_type(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in field["enum"])
    if "anyOf" in field:
        return " | ".join(dict.fromkeys(_short_type(each) for each in field["anyOf"]))
    kind = _kind(field)
    return f"{_short_type(field.get('items', {}))}[]" if kind == "array" else kind


def _kind(field: Mapping[str, Any]) -> str:
    kind = field.get("type", "object" if "$ref" in field or "properties" in field else "any")
    return kind if isinstance(kind, str) else "any"
