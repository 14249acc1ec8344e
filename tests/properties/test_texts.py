"""What holds for every text, whoever wrote it (CONFORMANCE.md section 4.5).

To draw a text costs more than to read it, so each is held to all of the properties at once; the
traceback says which one failed.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.extraction import PRESETS, extract
from ksi_daemon.extraction.extractor import read_closely
from tests.properties import sound
from tests.properties.written import LENIENT, SOME, debris, lenient


@pytest.mark.parametrize("reader", sorted(LENIENT))
@SOME
@given(text=debris)
def test_debris_of_calls_is_read_soundly(reader: str, text: str) -> None:
    settings = lenient(reader)
    result = extract(text, settings)
    sound.places_are_sound(text, result)
    sound.rejections_speak(text, result)
    sound.spans_hold_their_calls(text, settings, result)
    sound.strict_is_within_lenient(text, settings, result)
    sound.repairs_only_add(text, settings, result)


@pytest.mark.parametrize("preset", PRESETS)
@SOME
@given(
    text=debris | st.text(st.characters()),
    stop=st.sampled_from([None, "stop", "length"]),
)
def test_any_text_gives_a_result_with_sound_places(
    preset: str, text: str, stop: str | None
) -> None:
    result = extract(text, PRESETS[preset], stop_reason=stop)
    sound.places_are_sound(text, result)
    sound.rejections_speak(text, result)


@pytest.mark.parametrize("preset", PRESETS)
@SOME
@given(text=debris)
def test_a_glance_changes_nothing(preset: str, text: str) -> None:
    glanced = extract(text, PRESETS[preset], new_id=lambda: "ksiu_g")
    assert glanced == read_closely(text, PRESETS[preset], None, None, lambda: "ksiu_g")
