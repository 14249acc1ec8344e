"""What must hold for every text whatever, as functions: for property tests and for the fuzzer."""

from __future__ import annotations

import msgspec

from ksi_daemon.extraction import Call, Extraction, Protocol, extract
from ksi_daemon.extraction.dialects import DIALECTS, FramedDialect
from tests.properties.written import calls_of

__all__ = [
    "places_are_sound",
    "rejections_speak",
    "repairs_only_add",
    "spans_hold_their_calls",
    "strict_is_within_lenient",
]


def places_are_sound(text: str, result: Extraction) -> None:
    """Blocks are in order, disjoint and not empty; what is left over is the rest of the text."""
    assert [call.start for call in result.calls] == sorted(call.start for call in result.calls)
    last = said = 0
    for start, end in sorted(each.span for each in (*result.calls, *result.rejected)):
        assert last <= start < end <= len(text) or not text
        last = end
        said += end - start
    assert _is_part_of(result.residual, text)
    assert len(result.residual) <= len(text) - said


def spans_hold_their_calls(text: str, settings: Protocol, result: Extraction) -> None:
    """The span of a call, alone, is that call.

    Calls that share their marks have spans without them, which alone may mean something else.
    """
    alone = len(result.calls) + len(result.rejected) == 1
    for call in result.calls:
        if alone or not isinstance(DIALECTS[call.dialect], FramedDialect):
            again = extract(text[call.start : call.end], settings, stop_reason="stop")
            assert calls_of(again) == [(call.name, call.args)]


def rejections_speak(text: str, result: Extraction) -> None:
    """A rejected block has a code, a message, and an excerpt that stands in it."""
    for block in result.rejected:
        assert block.code.replace("_", "").isalpha()
        assert block.message
        assert block.excerpt or not text
        assert block.excerpt in text[block.start : block.end]


def strict_is_within_lenient(text: str, settings: Protocol, result: Extraction) -> None:
    """What strict mode reads in *text*, *result* has too."""
    strict = extract(text, msgspec.structs.replace(settings, mode="strict"))
    found = [_told(call) for call in result.calls]
    assert [call for call in strict.calls if _told(call) not in found] == []


def repairs_only_add(text: str, settings: Protocol, result: Extraction) -> None:
    """What *result* has without a repair is read with repairs switched off."""
    plain = extract(text, msgspec.structs.replace(settings, repair="off"))
    found = [_told(call) for call in plain.calls]
    exact = [call for call in result.calls if not call.repairs]
    assert [call for call in exact if _told(call) not in found] == []


def _told(call: Call) -> tuple[int, int, str, object]:
    return call.start, call.end, call.name, call.args


def _is_part_of(piece: str, text: str) -> bool:
    """Say whether *piece* is *text* with some of its characters left out."""
    rest = iter(text)
    return all(character in rest for character in piece)
