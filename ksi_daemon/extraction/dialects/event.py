"""The direct form: ``{"event": "namespace:action", "data": {...}}``.

Objects with an ``event`` are common in prose and logs, so only one whose value is a valid event
name is a call. With data, a name that has colons but is none is refused: it was meant for one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from ksi_daemon.events import is_event_name
from ksi_daemon.extraction.dialects.base import (
    QUOTE,
    Draft,
    Fault,
    Head,
    ObjectDialect,
    is_call_id,
    listed,
    object_args,
    spelled,
)

__all__ = ["EventDialect"]

# The name may have lost one of its quotes.
_EVENT: Final = re.compile(
    rf"{spelled('event')}(?:{QUOTE}(?=\s))?+\s*+(?:{QUOTE}{{1,2}}+([^\s\"'‘’“”,]++)(?:{QUOTE}|,|\Z)"
    rf"|([^\s\"'‘’“”,{{\[]++){QUOTE})"
)
_DATA: Final = re.compile(spelled("data"))
_COLONS: Final = re.compile(r"[A-Za-z][\w.\-]*+(?::[\w.\-]*+)++")
_KNOWN: Final = frozenset({"event", "data", "id", "_k"})


class EventDialect(ObjectDialect):
    name: ClassVar[str] = "event"
    keys: ClassVar[tuple[str, ...]] = ("event", "data")
    opening: ClassVar[str] = r'"event"\s*+:'
    markers: ClassVar[tuple[str, ...]] = ('"event"',)
    nonce_place: ClassVar[str] = 'beside `event` as `"_k": "{nonce}"`'
    sample = ("agent:status", {"status": "ready"})

    def read(self, block: dict[str, Any], *, strict: bool) -> Draft | Fault | None:
        name = block.get("event")
        args = block.get("data")
        if not isinstance(name, str) or not is_event_name(name):
            return _misnamed(name, args)
        if type(args) is dict and len(block) == 2:
            return Draft(name, args, None)
        args = object_args(args, "data", strict=strict)
        others = [key for key in block if key not in _KNOWN and not key.startswith("_")]
        if others and "data" not in block:
            return Fault("args_type", f"'data' is missing; {listed(others)} belong in it")
        if isinstance(args, Fault):
            return args
        given, nonce = block.get("id"), block.get("_k")
        return Draft(
            name,
            args,
            given if is_call_id(given) and given.startswith("ksiu_") else None,
            nonce if is_call_id(nonce) else None,
            (("unknown_field", f"ignored {listed(others)}"),) if others else (),
        )

    def resembles(self, head: Head) -> bool:
        told = head.values.get('"event"')
        if told is None:
            ahead = _EVENT.search(head.ahead) if "event" in head.ahead else None
            if ahead is None:
                return False
            name = ahead[1] or ahead[2]
        else:
            name = told.strip('"')
        if is_event_name(name):
            return True
        named = bool(name) and not re.search(r"\s|[{\[]", name)
        return named and ('"data"' in head.values or _DATA.search(head.ahead) is not None)

    def write(self, name: str, args: Mapping[str, Any], id: str) -> str:
        proof = {"_k": self.nonce} if self.nonce else {}
        return json.dumps({"event": name, **proof, "data": args}, ensure_ascii=False)

    def teach(self, *, compact: bool) -> str:
        name, args = self.sample
        example = self.write(name, args, "")
        if compact:
            return f"Short, flat data: {example}"
        return (
            "Write one JSON object with the event's name and its data:\n\n"
            f"```json\n{example}\n```\n\n"
            "This form suits short, flat data."
        )


def _misnamed(name: Any, args: Any) -> Fault | None:
    """Return why an event of that *name* is refused, None if it was meant for no event."""
    if type(args) is not dict or not isinstance(name, str) or not _COLONS.fullmatch(name):
        return None
    return Fault("missing_name", f"'event' must be 'namespace:action', got {name!r:.60}")
