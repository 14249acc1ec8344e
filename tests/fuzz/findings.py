"""What the fuzzer found, as rows, and what every text is held to."""

from __future__ import annotations

from typing import Final

from ksi_daemon.extraction import Protocol, extract
from tests.properties import sound

__all__ = ["FINDINGS", "check"]

# Name, the preset under which it was found, the text.
FINDINGS: Final[tuple[tuple[str, str, str], ...]] = ()


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
