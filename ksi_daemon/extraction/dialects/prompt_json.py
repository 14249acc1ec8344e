"""The prompted form: ``{"tool": name, "arguments": {...}}``, bare in prose or in a JSON fence.

*arguments* may be absent (no arguments), or text that holds an object as JSON. Things have tools
and tools have names in plain data too, so an object without *arguments* is a call only if nothing
but an id or a thought stands beside its *tool*, and ``{"name": ..., "arguments": ...}`` is none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from ksi_daemon.extraction.dialects.base import (
    QUOTE,
    Draft,
    Fault,
    Head,
    ObjectDialect,
    is_call_id,
    is_tool_name,
    listed,
    object_args,
    spelled,
)

__all__ = ["PromptDialect"]

# A name that lacks its closing quote is followed by the comma.
_TOOL: Final = re.compile(rf"{spelled('tool')}\s*+{QUOTE}([\w.:/-]++)(?:{QUOTE}|,|\Z)")
_ARGUMENTS: Final = re.compile(rf"{spelled('arguments')}|{QUOTE}arguments{QUOTE}")
_KNOWN: Final = frozenset({"tool", "arguments", "id", "thought", "_k"})
# What models write in place of *arguments*: with an object in it, it was meant for a call.
_MISNAMED: Final = ("args", "parameters", "params", "input")


class PromptDialect(ObjectDialect):
    name: ClassVar[str] = "prompt_json"
    keys: ClassVar[tuple[str, ...]] = ("tool", "arguments")
    opening: ClassVar[str] = r'"tool"\s*+:\s*+"'
    markers: ClassVar[tuple[str, ...]] = ('"tool"',)
    nonce_place: ClassVar[str] = 'beside `tool` as `"_k": "{nonce}"`'

    def read(self, block: dict[str, Any], *, strict: bool) -> Draft | Fault | None:
        name = block.get("tool")
        if not is_tool_name(name):
            return _unnamed(block)
        others = [key for key in block if key not in _KNOWN and not key.startswith("_")]
        if others and "arguments" not in block:
            return _misnamed(block)
        args = object_args(block.get("arguments"), "arguments", strict=False, code="args_json")
        if isinstance(args, Fault):
            return args
        given, nonce, thought = block.get("id"), block.get("_k"), block.get("thought")
        return Draft(
            name,
            args,
            given if is_call_id(given) else None,
            nonce if is_call_id(nonce) else None,
            (("unknown_field", f"ignored {listed(others)}"),) if others else (),
            thought if isinstance(thought, str) else "",
        )

    def resembles(self, head: Head) -> bool:
        if '"arguments"' not in head.values and not _has_arguments(head.ahead):
            return False
        told = head.values.get('"tool"')
        if told is None:
            ahead = _TOOL.search(head.ahead)
            told = ahead[1] if ahead else ""
        return is_tool_name(told.strip('"'))

    def write(self, name: str, args: Mapping[str, Any], id: str) -> str:
        proof = {"_k": self.nonce} if self.nonce else {}
        return json.dumps({"tool": name, **proof, "arguments": args}, ensure_ascii=False)

    def teach(self, *, compact: bool) -> str:
        return "**Important:** To call a tool, output valid JSON with this structure:"


def _has_arguments(ahead: str) -> bool:
    # Nearly always there is no such word, and to find that out is faster.
    return "arguments" in ahead and _ARGUMENTS.search(ahead) is not None


def _unnamed(block: dict[str, Any]) -> Fault | None:
    name = block.get("tool")
    if not isinstance(name, str) or not isinstance(block.get("arguments"), dict):
        return None
    return Fault("missing_name", f"'tool' must name a tool, got {name!r:.60}")


def _misnamed(block: dict[str, Any]) -> Fault | None:
    for key in _MISNAMED:
        if isinstance(block.get(key), dict):
            return Fault("args_type", f"'arguments' is missing; what {key!r} holds belongs in it")
    return None
