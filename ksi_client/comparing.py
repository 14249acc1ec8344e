"""The same replies read by several presets: what each of them would have made of them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from ksi_daemon.errors import KsiError
from ksi_daemon.extraction import (
    Extraction,
    Schemas,
    choose,
    extract,
    protocol,
    read_native,
    to_json,
)

__all__ = ["Reading", "Reply", "compared", "read_replies"]

_NATIVE: Literal["native_auto"] = "native_auto"


class Reply(msgspec.Struct, frozen=True):
    """One reply of a model, as the scripted provider takes it; *tool_calls* in OpenAI's form."""

    text: str = ""
    stop_reason: str | None = "stop"
    tool_calls: tuple[Any, ...] = ()


class Script(msgspec.Struct, frozen=True):
    """A provider object of type scripted, as far as it is used here."""

    replies: tuple[str | Reply, ...]


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of JSON lines, as ``ksi extract --jsonl`` takes them."""

    text: str
    stop_reason: str | None = "stop"
    tool_calls: tuple[Any, ...] = ()


class Reading(msgspec.Struct, frozen=True):
    """What *preset* makes of each reply."""

    preset: str
    found: tuple[Extraction, ...]

    @property
    def calls(self) -> int:
        return sum(len(each.calls) for each in self.found)

    @property
    def mended(self) -> int:
        return sum(bool(call.repairs) for each in self.found for call in each.calls)

    @property
    def rejected(self) -> int:
        return sum(len(each.rejected) for each in self.found)

    @property
    def finals(self) -> int:
        return sum(each.final is not msgspec.UNSET for each in self.found)

    @property
    def residual_chars(self) -> int:
        """How much visible text is left, in characters."""
        return sum(len(each.residual.strip()) for each in self.found)

    @property
    def repairs(self) -> Counter[str]:
        return Counter(
            repair for each in self.found for call in each.calls for repair in call.repairs
        )

    @property
    def codes(self) -> Counter[str]:
        """Why blocks were rejected."""
        return Counter(block.code for each in self.found for block in each.rejected)

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``ksi protocol compare --json`` prints for this preset."""
        return {
            "preset": self.preset,
            "calls": self.calls,
            "repaired": self.mended,
            "rejected": self.rejected,
            "finals": self.finals,
            "residual_chars": self.residual_chars,
            "repairs": dict(self.repairs),
            "codes": dict(self.codes),
            "replies": [to_json(each) for each in self.found],
        }


def read_replies(data: bytes, name: str) -> list[Reply]:
    """Return the replies in *data*, the content of the file *name*.

    They are a scripted provider object or its array of replies, the lines of a ``.jsonl``, or else
    the whole text is one reply. Raise KsiError ``not_utf8`` or ``bad_line``.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as exc:
        told = f"{name} is not UTF-8: byte 0x{data[exc.start]:02x} at offset {exc.start}"
        raise KsiError(told, code="not_utf8") from exc
    if name.endswith(".jsonl"):
        lines = enumerate(data.split(b"\n"), start=1)
        return [_line(line, f"{name}, line {number}") for number, line in lines if line.strip()]
    scripted = _script(text)
    return [Reply(text)] if scripted is None else scripted


def compared(
    replies: Sequence[Reply], presets: Iterable[str], tools: Schemas | None = None
) -> list[Reading]:
    """Return what each of *presets* makes of *replies*, as the daemon would read them."""
    return [
        Reading(name, tuple(_found(reply, name, tools) for reply in replies)) for name in presets
    ]


def _found(reply: Reply, preset: str, tools: Schemas | None) -> Extraction:
    # The daemon does not know either whether a template opened a thought.
    how = protocol(preset, open_thought=True)
    if reply.tool_calls and how.whole:
        how = protocol(preset, open_thought=True, mode="lenient")  # the text need not be one object
    text = extract(reply.text, how, stop_reason=reply.stop_reason, tools=tools)
    if not reply.tool_calls:
        return text
    message = {"role": "assistant", "content": reply.text, "tool_calls": list(reply.tool_calls)}
    return choose(read_native(message, vendor="openai"), text, declared=preset == _NATIVE)


def _script(text: str) -> list[Reply] | None:
    """Return the replies of a script, None if *text* is none."""
    try:
        value = msgspec.json.decode(text)
        script = msgspec.convert(value if isinstance(value, dict) else {"replies": value}, Script)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return [Reply(each) if isinstance(each, str) else each for each in script.replies]


def _line(line: bytes, place: str) -> Reply:
    try:
        told = msgspec.json.decode(line, type=Line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as exc:
        raise KsiError(f"{place}: {exc}", code="bad_line") from exc
    return Reply(told.text, told.stop_reason, told.tool_calls)
