"""Rates over time as a Vega-Lite chart: a line with its 95 % band for each group. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["SCHEMA", "trend"]

SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v5.json"
_RATE: Final = {"type": "quantitative", "scale": {"zero": False}, "axis": {"format": ".0%"}}
_TOOLTIP: Final = [{"field": name} for name in ("group", "time", "rate", "low", "high", "seen")]
_FIGURES: Final = ("seen", "quoted", "handled", "rate", "low", "high", "p50_ms", "p95_ms")


def trend(group_by: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the chart of the *rows* of a report; the last key of *group_by* is that of time."""
    *keys, step = group_by
    shared = {
        "x": {"field": "time", "type": "temporal", "title": step},
        "color": {"field": "group", "type": "nominal", "title": ", ".join(keys) or None},
    }
    return {
        "$schema": SCHEMA,
        "title": "Calls that came to good",
        "width": 640,
        "height": 320,
        "data": {"values": [_value(row, keys, step) for row in rows if row["rate"] is not None]},
        "layer": [
            {
                "mark": {"type": "area", "opacity": 0.15},
                "encoding": {
                    **shared,
                    "y": {"field": "low", **_RATE, "title": "rate, with its 95 % interval"},
                    "y2": {"field": "high"},
                },
            },
            {
                "mark": {"type": "line", "point": True},
                "encoding": {**shared, "y": {"field": "rate", **_RATE}, "tooltip": _TOOLTIP},
            },
        ],
    }


def _value(row: Mapping[str, Any], keys: Sequence[str], step: str) -> dict[str, Any]:
    return {
        "time": row[step],
        "group": "  ".join(str(row[key]) for key in keys if row[key] is not None) or "all",
        **{name: row[name] for name in (*keys, *_FIGURES)},
    }
