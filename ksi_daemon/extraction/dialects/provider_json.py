"""The forms of providers' own interfaces, written as text by models that were trained on them.

    {"name": "read_file", "arguments": {"path": "a"}}            also with "parameters"
    {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "a"}}
    {"functionCall": {"name": "read_file", "args": {"path": "a"}}}

Much data has a name, so the first form is a call only if it holds nothing else.
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
    object_args,
)

__all__ = ["ProviderDialect"]

_ARGUMENTS: Final = ("arguments", "parameters")
_BESIDE: Final = frozenset({"name", "id", "type"})


class ProviderDialect(ObjectDialect):
    name: ClassVar[str] = "provider_json"
    keys: ClassVar[tuple[str, ...]] = (
        "name",
        "arguments",
        "parameters",
        "type",
        "input",
        "functionCall",
    )
    opening: ClassVar[str] = (
        r'(?:"name"\s*+:\s*+"[^"\\]*+"\s*+,\s*+"(?:arguments|parameters)"'
        r'|"type"\s*+:\s*+"tool_use"|"functionCall"\s*+:\s*+\{)'
    )
    markers: ClassVar[tuple[str, ...]] = ('"name"',)

    def read(self, block: dict[str, Any], *, strict: bool) -> Draft | Fault | None:
        call = block.get("functionCall")
        if isinstance(call, dict) and len(block) == 1:
            return _draft(call, "args", None)
        if block.get("type") == "tool_use" and "input" in block:
            return _draft(block, "input", block.get("id"))
        key = next((each for each in _ARGUMENTS if each in block), None)
        if key is None or not isinstance(block[key], dict | str) or not {*block} - {key} <= _BESIDE:
            return None
        return _draft(block, key, block.get("id")) if is_tool_name(block.get("name")) else None

    def resembles(self, head: Head) -> bool:
        told = head.values
        if told.get('"type"') == '"tool_use"':
            return '"name"' in told
        begun = any(told.get(f'"{key}"', "") == "{" for key in _ARGUMENTS)
        return begun and is_tool_name(told.get('"name"', "").strip('"'))

    def write(self, name: str, args: Mapping[str, Any], id: str) -> str:
        return json.dumps({"name": name, "arguments": args}, ensure_ascii=False)

    def teach(self, *, compact: bool) -> str:
        return "To call a tool, write one JSON object with its name and its arguments."


def _draft(call: dict[str, Any], key: str, given: Any) -> Draft | Fault:
    name = call.get("name")
    if not is_tool_name(name):
        return Fault("missing_name", f"'name' must name a tool, got {name!r:.60}")
    args = object_args(call.get(key), key, strict=False, code="args_json")
    if isinstance(args, Fault):
        return args
    return Draft(name, args, given if is_call_id(given) else None)
