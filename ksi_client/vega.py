"""Rates over time as a Vega-Lite chart: a line with its 95 % band for each group. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["SCHEMA", "trend"]

SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v5.json"
_FIGURES: Final = ("seen", "quoted", "handled", "rate", "low", "high", "p50_ms", "p95_ms")


def trend(group_by: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the chart of the *rows* of a report; the last key of *group_by* is that of time."""
    *keys, step = group_by
    values = [
        {
            "time": row[step],
            "group": "  ".join(str(row[key]) for key in keys if row[key] is not None) or "all",
            **{name: row[name] for name in (*keys, *_FIGURES)},
        }
        for row in rows
        if row["rate"] is not None
    ]
    time = {"field": "time", "type": "temporal", "title": step}
    color = {"field": "group", "type": "nominal", "title": ", ".join(keys) or None}
    rate = {"type": "quantitative", "scale": {"zero": False}, "axis": {"format": ".0%"}}
    tooltip = [{"field": name} for name in ("group", "time", "rate", "low", "high", "seen")]
    return {
        "$schema": SCHEMA,
        "title": "Calls that came to good",
        "width": 640,
        "height": 320,
        "data": {"values": values},
        "layer": [
            {
                "mark": {"type": "area", "opacity": 0.15},
                "encoding": {
                    "x": time,
                    "y": {"field": "low", **rate, "title": "rate, with its 95 % interval"},
                    "y2": {"field": "high"},
                    "color": color,
                },
            },
            {
                "mark": {"type": "line", "point": True},
                "encoding": {
                    "x": time,
                    "y": {"field": "rate", **rate},
                    "color": color,
                    "tooltip": tooltip,
                },
            },
        ],
    }
