"""The action form: ``{"thought"?, "action": {"tool", "args"}}`` or ``{"final": {"content"}}``.

An object is of this dialect only if ``action`` holds a ``tool`` or ``args``, or ``final`` a
``content``: both words are common in data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from ksi_daemon.extraction.dialects.base import (
    Answer,
    Draft,
    Fault,
    Head,
    ObjectDialect,
    is_tool_name,
    listed,
    object_args,
    spelled,
)

__all__ = ["FORMS", "ActionDialect"]

FORMS: Final = "a reply is one object with either 'action' or 'final'"
# Many things have an action, so what stands there must be an object, or be cut off.
_AHEAD: Final = re.compile(rf"(?:{spelled('action')}|{spelled('final')})\s*+\Z")


class ActionDialect(ObjectDialect):
    name: ClassVar[str] = "json_action"
    keys: ClassVar[tuple[str, ...]] = ("thought", "action", "final")
    opening: ClassVar[str] = r'"(?:action|final)"\s*+:\s*+\{'
    markers: ClassVar[tuple[str, ...]] = ('"action"', '"final"')

    def read(self, block: dict[str, Any], *, strict: bool) -> Draft | Answer | Fault | None:
        if not _fits(block):
            return None
        if "action" in block and "final" in block:
            return Fault("invalid_protocol", FORMS)
        surplus = _surplus(block)
        if surplus and strict:
            return Fault("unknown_field", f"there is no field {listed(surplus)}; {FORMS}")
        notes = (("unknown_field", f"ignored {listed(surplus)}"),) if surplus else ()
        thought = block.get("thought")
        if strict and thought is not None and not isinstance(thought, str):
            return Fault("invalid_protocol", f"'thought' must be text, got {thought!r:.60}")
        return _outcome(block, thought if isinstance(thought, str) else "", notes, strict=strict)

    def resembles(self, head: Head) -> bool:
        told = (head.values.get('"action"'), head.values.get('"final"'))
        if "{" in told:
            return True
        named = "action" in head.ahead or "final" in head.ahead
        return named and _AHEAD.search(head.ahead) is not None

    def write(self, name: str, args: Mapping[str, Any], id: str) -> str:
        return json.dumps({"action": {"tool": name, "args": args}}, ensure_ascii=False)

    def teach(self, *, compact: bool) -> str:
        name, args = self.sample
        action = {"thought": "why, in a few words", "action": {"tool": name, "args": args}}
        shown = json.dumps(action, ensure_ascii=False)
        final = json.dumps({"final": {"content": {"status": "ok"}}})
        if compact:
            return (
                "Reply with exactly one JSON object: no Markdown, no comments, no other text.\n\n"
                f"To use a tool: {shown}\n"
                f"When you are done, with any JSON as content: {final}\n\n"
                "Never invent names of tools or fields."
            )
        return (
            "Your whole reply is exactly one JSON object: no Markdown, no comments, nothing before "
            "it and nothing after it. To use a tool:\n\n"
            f"{shown}\n\n"
            "You are then told its result. `thought` may be left out. When nothing is left to be "
            "done, say so with what is asked of you, any JSON, as content:\n\n"
            f"{final}\n\n"
            "Never invent names of tools or fields."
        )


def _fits(block: dict[str, Any]) -> bool:
    action, final = block.get("action"), block.get("final")
    return (isinstance(action, dict) and ("tool" in action or "args" in action)) or (
        isinstance(final, dict) and "content" in final
    )


def _surplus(block: dict[str, Any]) -> list[str]:
    """Return the fields that neither form has."""
    form, known = ("action", ("tool", "args")) if "action" in block else ("final", ("content",))
    within = [key for key in block[form] if key not in known]
    return [key for key in block if key not in ("thought", form)] + within


def _outcome(
    block: dict[str, Any], thought: str, notes: tuple[tuple[str, str], ...], *, strict: bool
) -> Draft | Answer | Fault:
    if "action" in block:
        return _draft(block["action"], thought, notes, strict=strict)
    return Answer(block["final"]["content"], notes, thought)


def _draft(
    action: dict[str, Any], thought: str, notes: tuple[tuple[str, str], ...], *, strict: bool
) -> Draft | Fault:
    name = action.get("tool")
    if not is_tool_name(name):
        return Fault("missing_name", f"'tool' must name a tool, got {name!r:.60}")
    others = [key for key in action if key not in ("tool", "thought", "id")]
    if others and "args" not in action:
        return Fault("args_type", f"'args' is missing; {listed(others)} belong in it")
    args = object_args(action.get("args"), "args", strict=strict)
    if isinstance(args, Fault):
        return args
    return Draft(name, args, None, None, notes, thought)
