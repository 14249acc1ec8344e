"""The forms of providers' own interfaces, written as text by models that were trained on them.

    {"name": "read_file", "arguments": {"path": "a"}}            also with "parameters"
    {"type": "function", "id": "c1", "function": {"name": "read_file", "arguments": "{...}"}}
    {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "a"}}
    {"functionCall": {"name": "read_file", "args": {"path": "a"}}}

Much data has a name, so the first form is a call only if it holds nothing else. What describes a
tool looks much like a call of it: its parameters are a schema, and a function in it has no
arguments.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from ksi_daemon.extraction.dialects.base import (
    Draft,
    Fault,
    Head,
    ObjectDialect,
    is_call_id,
    is_tool_name,
    listed,
    object_args,
)

__all__ = ["ProviderDialect", "read_provider"]

_ARGUMENTS: Final = ("arguments", "parameters")
_WRAPPED_ARGUMENTS: Final = ("arguments", "args")
_BESIDE: Final = frozenset({"name", "id", "type"})
_WRAPPERS: Final = ("functionCall", "function_call")
_BESIDE_WRAPPED: Final = frozenset({"id", "thought", "thoughtSignature", "thought_signature"})
_BESIDE_FUNCTION: Final = frozenset({"id", "type", "index"})


class ProviderDialect(ObjectDialect):
    name: ClassVar[str] = "provider_json"
    keys: ClassVar[tuple[str, ...]] = (
        "name",
        "arguments",
        "parameters",
        "type",
        "input",
        "function",
        *_WRAPPERS,
    )
    opening: ClassVar[str] = (
        r'(?:"name"\s*+:\s*+"[^"\\]*+"\s*+,\s*+"(?:arguments|parameters)"'
        r'|"type"\s*+:\s*+"tool_use"|"function_?[cC]all"\s*+:\s*+\{'
        r'|"function"\s*+:\s*+\{\s*+"name"|"(?:type|id)"\s*+:\s*+"[^"\\]*+"\s*+,\s*+"function")'
    )
    markers: ClassVar[tuple[str, ...]] = ('"name"',)

    def read(self, block: dict[str, Any], *, strict: bool) -> Draft | Fault | None:
        return read_provider(block)

    def resembles(self, head: Head) -> bool:
        told = head.values
        if told.get('"type"') == '"tool_use"':
            return '"name"' in told
        if "{" not in (told.get('"arguments"'), told.get('"parameters"')):
            return False
        return is_tool_name(told.get('"name"', "").strip('"'))

    def write(self, name: str, args: Mapping[str, Any], id: str) -> str:
        return json.dumps({"name": name, "arguments": args}, ensure_ascii=False)

    def teach(self, *, compact: bool) -> str:
        return "To call a tool, write one JSON object with its name and its arguments."


def read_provider(block: dict[str, Any]) -> Draft | Fault | None:
    """Return the call that *block* makes in a provider's form, or why it makes none.

    None: it has no such form.
    """
    if block.get("type") == "tool_use" and "input" in block:
        return _draft(block, "input", block.get("id"))
    for key in _WRAPPERS:
        if isinstance(block.get(key), dict) and {*block} - {key} <= _BESIDE_WRAPPED:
            return _wrapped(block[key], block.get("id"))
    function = block.get("function")
    if isinstance(function, dict) and {*block} - {"function"} <= _BESIDE_FUNCTION:
        called = {*function} <= {"name", "arguments"} and "arguments" in function
        return _draft(function, "arguments", block.get("id")) if called else None
    return _bare(block)


def _wrapped(call: dict[str, Any], given: Any) -> Draft | Fault:
    keys = [key for key in _WRAPPED_ARGUMENTS if key in call]
    others = [key for key in call if key not in ("name", "id", *keys)]
    if others and not keys:
        return Fault("args_type", f"'args' is missing; {listed(others)} belong in it")
    if len(keys) > 1:
        said = " and ".join(map(repr, keys))
        return Fault("args_type", f"the arguments are given twice, as {said}")
    return _draft(call, keys[0] if keys else "args", call.get("id", given))


def _bare(block: dict[str, Any]) -> Draft | Fault | None:
    key = next((each for each in _ARGUMENTS if each in block), None)
    if key is None or not isinstance(block[key], dict | str) or not {*block} - {key} <= _BESIDE:
        return None
    if not is_tool_name(block.get("name")) or _is_schema(block[key]):
        return None
    return _draft(block, key, block.get("id"))


def _is_schema(value: Any) -> bool:
    """Say whether *value* describes an object's members instead of holding some."""
    described = isinstance(value, dict) and value.get("type") == "object"
    return described and isinstance(value.get("properties"), dict)


def _draft(call: dict[str, Any], key: str, given: Any) -> Draft | Fault:
    name = call.get("name")
    if not is_tool_name(name):
        return Fault("missing_name", f"'name' must name a tool, got {name!r:.60}")
    args = object_args(call.get(key), key, strict=False, code="args_json")
    if isinstance(args, Fault):
        return args
    return Draft(name, args, given if is_call_id(given) else None)
