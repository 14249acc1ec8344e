"""Presets and the overrides of their settings."""

from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.errors import KsiError, NotFound
from ksi_daemon.extraction.presets import PRESETS, Protocol, protocol


def test_ksi_is_the_default() -> None:
    assert protocol() == PRESETS["ksi"] == protocol("ksi")
    assert protocol() == Protocol(name="ksi", dialects=("ksi_tool_use", "event", "ksi_body"))


def test_every_preset_of_the_design_is_named() -> None:
    names = {"ksi", "json_action", "prompt_tools", "text_tagged", "native_auto", "any", "command"}
    assert set(PRESETS) == names
    assert [protocol(name) for name in PRESETS] == list(PRESETS.values())


def test_json_action_is_the_whole_reply_if_strict() -> None:
    whole = {name for name in PRESETS if protocol(name, mode="strict").whole}
    assert whole == {"json_action"}
    assert not protocol("json_action", mode="lenient").whole


def test_overrides_replace_settings() -> None:
    changed = protocol("ksi", mode="strict", dialects=["event"], max_calls=2)
    assert changed == Protocol(name="ksi", mode="strict", dialects=("event",), max_calls=2)


@pytest.mark.parametrize(
    ("mode", "repair", "repairs"),
    [("lenient", "on", True), ("lenient", "off", False), ("strict", "on", False)],
)
def test_strict_repairs_nothing(mode: str, repair: str, repairs: bool) -> None:
    assert protocol("ksi", mode=mode, repair=repair).repairs is repairs


@pytest.mark.parametrize(
    ("name", "overrides", "error", "message"),
    [
        pytest.param("kis", {}, NotFound, "no preset 'kis'", id="unknown preset"),
        pytest.param(
            "ksi", {"dialects": ["evnet"]}, NotFound, "no dialect 'evnet'", id="unknown dialect"
        ),
        pytest.param("ksi", {"mode": "loose"}, KsiError, "Invalid enum value 'loose'", id="mode"),
        pytest.param("ksi", {"colour": 1}, KsiError, "unknown field `colour`", id="setting"),
        pytest.param("ksi", {"max_depth": "9"}, KsiError, "Expected `int`, got `str`", id="type"),
    ],
)
def test_refuses_what_it_does_not_know(
    name: str, overrides: dict[str, Any], error: type[KsiError], message: str
) -> None:
    with pytest.raises(error, match=message):
        protocol(name, **overrides)
