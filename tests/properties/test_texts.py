"""What holds for every text, whoever wrote it (CONFORMANCE.md section 4.5)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.extraction import Extraction, extract
from ksi_daemon.extraction.dialects import DIALECTS, FramedDialect
from tests.properties.written import LENIENT, SOME, calls_of, debris, lenient

STOPS = st.sampled_from([None, "stop", "length"])
READERS = sorted(LENIENT)


def spans_of(result: Extraction) -> list[tuple[int, int]]:
    return sorted(each.span for each in (*result.calls, *result.rejected))


def is_part_of(piece: str, text: str) -> bool:
    """Say whether *piece* is *text* with some of its characters left out."""
    rest = iter(text)
    return all(character in rest for character in piece)


@pytest.mark.parametrize("reader", READERS)
@SOME
@given(text=debris | st.text(st.characters()), stop=STOPS)
def test_any_text_gives_a_result_with_sound_places(
    reader: str, text: str, stop: str | None
) -> None:
    result = extract(text, lenient(reader), stop_reason=stop)
    assert [call.start for call in result.calls] == sorted(call.start for call in result.calls)
    last = 0
    for start, end in spans_of(result):
        assert last <= start < end <= len(text)
        last = end
    assert is_part_of(result.residual, text)
    said = sum(end - start for start, end in spans_of(result))
    assert len(result.residual) <= len(text) - said


@pytest.mark.parametrize("reader", READERS)
@SOME
@given(text=debris)
def test_the_span_of_a_call_holds_the_call(reader: str, text: str) -> None:
    found = extract(text, lenient(reader))
    several = len(found.calls) + len(found.rejected) > 1
    for call in found.calls:
        alone = calls_of(extract(text[call.start : call.end], lenient(reader), stop_reason="stop"))
        # A call that shares its marks with others has a span without them.
        shared = several and isinstance(DIALECTS[call.dialect], FramedDialect)
        assert alone == [(call.name, call.args)] or (shared and not alone)


@pytest.mark.parametrize("reader", READERS)
@SOME
@given(text=debris)
def test_rejected_blocks_say_what_is_wrong(reader: str, text: str) -> None:
    for block in extract(text, lenient(reader)).rejected:
        assert block.code.replace("_", "").isalpha()
        assert block.message
        assert block.excerpt
        assert block.excerpt in text[block.start : block.end]


@pytest.mark.parametrize("reader", READERS)
@SOME
@given(text=debris)
def test_what_strict_reads_lenient_reads_too(reader: str, text: str) -> None:
    settings = lenient(reader)
    strict = msgspec.structs.replace(settings, mode="strict")
    found = [(*each.span, each.name, each.args) for each in extract(text, settings).calls]
    for call in extract(text, strict).calls:
        assert (*call.span, call.name, call.args) in found


@pytest.mark.parametrize("reader", READERS)
@SOME
@given(text=debris)
def test_without_repairs_nothing_else_is_read(reader: str, text: str) -> None:
    settings = lenient(reader)
    plain = msgspec.structs.replace(settings, repair="off")
    mended = extract(text, settings).calls
    exact = [(*each.span, each.name, each.args) for each in mended if not each.repairs]
    found = [(*each.span, each.name, each.args) for each in extract(text, plain).calls]
    assert [each for each in exact if each not in found] == []
