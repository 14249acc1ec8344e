"""How a text is to be read: the settings of one agent, and the presets that name common ones."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

import msgspec

from ksi_daemon.errors import KsiError, NotFound
from ksi_daemon.extraction.dialects import DIALECTS
from ksi_daemon.extraction.glance import Glance, glance_of

__all__ = ["DEPTH", "PRESETS", "Protocol", "protocol"]

DEPTH: Final = 6  # of objects and arrays in each other: deeper ones are read closely


class Protocol(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """Settings of extraction.

    *dialects* are in order of precedence: where an object fits two of them, the first one reads
    it. *dedupe* drops a call that repeats an earlier one of the same text, *descend* looks for
    calls inside objects that are not calls. *legacy_event* says what happens to the direct event
    form: ``reject_complex`` refuses it for data that is easily mangled. *open_thought* allows for
    models whose template opens their thought, so that the reply begins within it: if a tag only
    closes one, nothing before it is a call. Then no call is certain before the reply is over, and
    a stream holds all of them back. *thought_limit* is how much is kept of the thought beside an
    action. Lengths are in characters.
    """

    name: str
    mode: Literal["strict", "lenient"] = "lenient"
    dialects: tuple[str, ...]
    repair: Literal["on", "off"] = "on"
    dedupe: bool = False
    descend: bool = False
    open_thought: bool = False
    legacy_event: Literal["allow", "warn", "reject_complex", "reject"] = "allow"
    thought_limit: Annotated[int, msgspec.Meta(ge=0)] = 200
    max_depth: int = 64
    max_block_chars: int = 1 << 20
    max_reply_chars: int = 4 << 20
    max_calls: int = 64

    @property
    def whole(self) -> bool:
        """Whether a reply must be one object and nothing else."""
        return self.mode == "strict" and self.dialects[:1] == ("json_action",)

    @property
    def repairs(self) -> bool:
        """Whether a block that is not exact JSON may still be read."""
        return self.repair == "on" and self.mode == "lenient"

    @cached_property
    def glance(self) -> Glance | None:
        """What its blocks look like; None if every block of a text is to be read closely."""
        closely = self.whole or self.legacy_event != "allow" or self.max_depth < DEPTH
        if closely or not self.max_calls:
            return None
        found = glance_of(self.dialects)
        return found if found.objects else None


PRESETS: Final[Mapping[str, Protocol]] = MappingProxyType(
    {
        preset.name: preset
        for preset in (
            Protocol(name="ksi", dialects=("ksi_tool_use", "event", "ksi_body")),
            Protocol(name="json_action", mode="strict", dialects=("json_action", "command")),
            Protocol(name="prompt_tools", dialects=("prompt_json",), dedupe=True),
            Protocol(name="text_tagged", dialects=("text_tagged",), dedupe=True),
            # Native calls come beside the text; this is what is read in it.
            Protocol(name="native_auto", dialects=("text_tagged",), dedupe=True),
            Protocol(name="command", dialects=("command",)),
            Protocol(
                name="any",
                open_thought=True,
                dialects=(
                    "ksi_tool_use",
                    "event",
                    "ksi_body",
                    "prompt_json",
                    "json_action",
                    "provider_json",
                    "provider_list",
                    "text_tagged",
                    "command",
                    "function_tags",
                    "invoke_tags",
                    "argument_tags",
                    "headed",
                    "named",
                    "harmony",
                    "pythonic",
                    "gemma",
                    "react",
                ),
            ),
        )
    }
)


def protocol(name: str = "ksi", **overrides: Any) -> Protocol:
    """Return the preset *name* with *overrides* applied and checked.

    Raise NotFound for an unknown preset or dialect, KsiError for a setting of the wrong type.
    """
    if name not in PRESETS:
        raise NotFound("preset", name, PRESETS)
    settings = {**msgspec.structs.asdict(PRESETS[name]), **overrides}
    try:
        chosen = msgspec.convert(settings, Protocol)
    except msgspec.ValidationError as exc:
        raise KsiError(f"protocol {name!r}: {exc}", code="invalid_configuration") from exc
    for dialect in chosen.dialects:
        if dialect not in DIALECTS:
            raise NotFound("dialect", dialect, DIALECTS)
    return chosen
