"""What holds for every text, whoever wrote it (CONFORMANCE.md section 4.5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.extraction import extract
from tests.properties import sound
from tests.properties.written import LENIENT, SOME, debris, lenient

READERS = sorted(LENIENT)
stops = st.sampled_from([None, "stop", "length"])


@pytest.mark.parametrize("reader", READERS)
@SOME
@given(text=debris | st.text(st.characters()), stop=stops)
def test_any_text_gives_a_result_with_sound_places(
    reader: str, text: str, stop: str | None
) -> None:
    sound.places_are_sound(text, extract(text, lenient(reader), stop_reason=stop))


@pytest.mark.parametrize("reader", READERS)
@SOME
@given(text=debris)
def test_the_span_of_a_call_holds_the_call(reader: str, text: str) -> None:
    sound.spans_hold_their_calls(text, lenient(reader), extract(text, lenient(reader)))


@pytest.mark.parametrize("reader", READERS)
@SOME
@given(text=debris)
def test_rejected_blocks_say_what_is_wrong(reader: str, text: str) -> None:
    sound.rejections_speak(text, extract(text, lenient(reader)))


@pytest.mark.parametrize("reader", READERS)
@SOME
@given(text=debris)
def test_what_strict_reads_lenient_reads_too(reader: str, text: str) -> None:
    sound.strict_is_within_lenient(text, lenient(reader), extract(text, lenient(reader)))


@pytest.mark.parametrize("reader", READERS)
@SOME
@given(text=debris)
def test_without_repairs_nothing_else_is_read(reader: str, text: str) -> None:
    sound.repairs_only_add(text, lenient(reader), extract(text, lenient(reader)))
