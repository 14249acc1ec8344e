from __future__ import annotations

import json
from typing import Any

from ksi_client import vega


def row(rate: float | None, **keys: Any) -> dict[str, Any]:
    figures = {"seen": 9, "quoted": 0, "handled": 8, "low": 0.5, "high": 1.0}
    return {**keys, "rate": rate, **figures, "p50_ms": 1.0, "p95_ms": 2.0, "tokens": 7}


def test_a_chart_has_a_line_and_its_band() -> None:
    rows = [
        row(0.9, model="m", dialect="event", day="2026-01-31"),
        row(None, model="m", dialect=None, day="2026-01-31"),
    ]
    chart = vega.trend(["model", "dialect", "day"], rows)
    assert chart["$schema"] == vega.SCHEMA
    assert chart["data"]["values"] == [
        {
            "time": "2026-01-31", "group": "m  event", "model": "m", "dialect": "event", "seen": 9,
            "quoted": 0, "handled": 8, "rate": 0.9, "low": 0.5, "high": 1.0, "p50_ms": 1.0,
            "p95_ms": 2.0,
        }
    ]  # fmt: skip
    band, line = chart["layer"]
    assert (band["mark"]["type"], line["mark"]["type"]) == ("area", "line")
    assert {band["encoding"]["y"]["field"], band["encoding"]["y2"]["field"]} == {"low", "high"}


def test_each_field_that_is_drawn_is_in_the_data() -> None:
    chart = vega.trend(["hour"], [row(0.9, hour="2026-01-31T12:00:00Z")])
    [value] = chart["data"]["values"]
    assert value["group"] == "all"
    channels = [each for layer in chart["layer"] for each in layer["encoding"].values()]
    drawn = [each for channel in channels for each in ([channel], channel)[type(channel) is list]]
    assert {each["field"] for each in drawn} <= value.keys()
    assert json.loads(json.dumps(chart)) == chart
