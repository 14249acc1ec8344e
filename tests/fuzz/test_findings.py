"""What the fuzzer found once and must not find again."""

from __future__ import annotations

import pytest

from ksi_daemon.extraction import PRESETS, extract, protocol
from tests.fuzz.findings import SLOW, UNSOUND, check
from tests.growth import LINEAR, doubling


@pytest.mark.parametrize("stop", [None, "stop", "length"])
@pytest.mark.parametrize(("preset", "text"), UNSOUND.values(), ids=UNSOUND)
def test_is_sound(preset: str, text: str, stop: str | None) -> None:
    check(text, protocol(preset, mode="lenient"), stop)


@pytest.mark.parametrize("unit", SLOW.values(), ids=SLOW)
def test_costs_twice_for_twice_the_length(unit: str) -> None:
    def cost(length: int) -> object:
        return extract(unit * (length // len(unit)), PRESETS["any"])

    assert doubling(cost, 60_000) < LINEAR
