"""The tool form: ``{"type": "ksi_tool_use", "id": ..., "name": ..., "input": {...}}``."""

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
    nonce_of,
    object_args,
)

__all__ = ["ToolUseDialect"]

_TYPE: Final = "ksi_tool_use"
_PREFIX: Final = "ksiu_"
_KNOWN: Final = frozenset({"type", "id", "name", "input"})
# It may have lost one of its quotes.
_QUOTED_TYPE: Final = re.compile(rf"{QUOTE}{_TYPE}\b|\b{_TYPE}{QUOTE}")


class ToolUseDialect(ObjectDialect):
    name: ClassVar[str] = _TYPE
    keys: ClassVar[tuple[str, ...]] = ("type", "id", "name", "input")
    opening: ClassVar[str] = r'"type"\s*+:\s*+"ksi_tool_use"'
    markers: ClassVar[tuple[str, ...]] = ('"ksi_tool_use"',)
    nonce_place: ClassVar[str] = "in the id as `ksiu_{nonce}_01`"
    sample = (
        "agent:status",
        {"status": "ready", "note": 'Line one.\nLine two, with a "quote".'},
    )

    def read(self, block: dict[str, Any], *, strict: bool) -> Draft | Fault | None:
        if block.get("type") != _TYPE:
            return None
        given = block.get("id")
        if strict and not (is_call_id(given) and given.startswith(_PREFIX)):
            return Fault(
                "missing_id", f"'id' must be text that starts with 'ksiu_', got {given!r:.60}"
            )
        name = block.get("name")
        if not is_tool_name(name):
            return Fault(
                "missing_name",
                f"'name' must name an event or a tool, such as 'agent:status', got {name!r:.60}",
            )
        others = [] if _KNOWN.issuperset(block) else _others(block)
        if others and "input" not in block:
            return Fault("args_type", f"'input' is missing; {listed(others)} belong in it")
        args = block.get("input")
        if type(args) is not dict:
            args = object_args(args, "input", strict=strict)
            if isinstance(args, Fault):
                return args
        notes = (("unknown_field", f"ignored {listed(others)}"),) if others else ()
        if not is_call_id(given):
            odd = (("id_generated", "the block had no usable id"),)
            return Draft(name, args, None, None, (*odd, *notes))
        if given.startswith(_PREFIX):
            return Draft(name, args, given, nonce_of(given), notes)
        odd = (("missing_id", f"the id {given!r:.60} does not start with 'ksiu_'"),)
        return Draft(name, args, given, None, (*odd, *notes))

    def resembles(self, head: Head) -> bool:
        if '"type"' in head.values:
            return head.values['"type"'] == f'"{_TYPE}"'
        return _TYPE in head.ahead and _QUOTED_TYPE.search(head.ahead) is not None

    def write(self, name: str, args: Mapping[str, Any], id: str) -> str:
        return json.dumps(self._block(name, args, id), ensure_ascii=False)

    def teach(self, *, compact: bool) -> str:
        name, args = self.sample
        example = self._block(name, args, "ksiu_01")
        if compact:
            return f"Any other data: {json.dumps(example, ensure_ascii=False)}"
        first, second = (self._id(f"ksiu_0{number}") for number in (1, 2))
        return (
            "Write a tool-use block. Its type is always the same; its id starts with `ksiu_` and "
            f"is new for every block (`{first}`, `{second}`, ...):\n\n"
            f"```json\n{json.dumps(example, indent=2, ensure_ascii=False)}\n```"
        )

    def _block(self, name: str, args: Mapping[str, Any], id: str) -> dict[str, Any]:
        return {"type": _TYPE, "id": self._id(id), "name": name, "input": args}

    def _id(self, id: str) -> str:
        return f"{_PREFIX}{self.nonce}_{id.removeprefix(_PREFIX)}" if self.nonce else id


def _others(block: dict[str, Any]) -> list[str]:
    return [key for key in block if key not in _KNOWN and not key.startswith("_")]
