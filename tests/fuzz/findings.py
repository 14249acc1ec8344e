"""What the fuzzer and the properties found, as rows, and what every text is held to."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ksi_daemon.extraction import Protocol, extract
from tests.properties import sound

__all__ = ["SLOW", "UNSOUND", "check"]

# Texts that gave an unsound result: by what was wrong, the preset and the text.
UNSOUND: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "the span of a call left out its mark": (
            "any",
            '<|action_start|>\n<tool_call>{"name": "a:b", "arguments": {}}</tool_call>',
        ),
        "arguments under another key were dropped": (
            "any",
            '<|action_start|><|plugin|>{"type": "ksi_tool_use", "name": "a", "input": {"x": 1}}',
        ),
        "a raw line end in a key was no repair": (
            "any",
            "<|tool_call_start|>[f(v={'a\nb': None})]<|tool_call_end|>",
        ),
    }
)
# Texts that, repeated, cost more than their length: by what was read again and again.
SLOW: Final[Mapping[str, str]] = MappingProxyType(
    {
        "fences behind a body block in a line": 'i~~~ksi a:b id=ksiu_1\n{"n": [1,// x\n>"event":',
        "fences shorter than that of a body block": "i~~~~ksi a:b {}\n~~~\n",
    }
)


def check(text: str, settings: Protocol, stop: str | None) -> None:
    """Raise AssertionError unless *text* gives a sound result under *settings*."""
    result = extract(text, settings, stop_reason=stop)
    sound.places_are_sound(text, result)
    sound.rejections_speak(text, result)
    if settings.whole:
        return
    sound.spans_hold_their_calls(text, settings, result)
    if stop is None:
        sound.strict_is_within_lenient(text, settings, result)
        sound.repairs_only_add(text, settings, result)
