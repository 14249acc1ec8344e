"""The dearest texts that were found stay linear; ``hostile.main`` searches for more."""

from __future__ import annotations

import pytest

from ksi_daemon.extraction import PRESETS, extract
from ksi_daemon.extraction.dialects import DIALECTS, FramedDialect
from tests.corruption.hostile import HOSTILE, SUSPECT, fragments, growth, search, text_of


@pytest.mark.parametrize(("preset", "head", "unit"), HOSTILE)
def test_twice_the_length_costs_twice(preset: str, head: str, unit: str) -> None:
    assert growth(head, unit, preset, 30_000) < SUSPECT


@pytest.mark.parametrize("preset", ["ksi", "any"])
def test_a_short_search_finds_nothing_that_is_not_linear(preset: str) -> None:
    shapes = list(search(15, preset))
    assert shapes
    assert [shape for shape in shapes if shape.growth > SUSPECT] == []


def test_the_search_knows_the_marks_of_every_dialect() -> None:
    marks = {mark for each in DIALECTS.values() for mark in each.markers}
    assert marks <= set(fragments())


def test_every_dialect_is_alive_in_each_text() -> None:
    text = text_of("", "x", 10)
    assert len(text) > 10
    assert extract(text, PRESETS["any"]).calls
    framed = [each for each in DIALECTS.values() if isinstance(each, FramedDialect)]
    assert all(any(mark in text for mark in each.markers) for each in framed)
