from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.log.recommendation import (
    Recommendation,
    best_protocol,
    protocol_for,
    recommendations,
)

Row = dict[str, Any]


def row(dialect: str | None, n: int, good: int, model: str | None = "m") -> Row:
    """A row of a report: *n* meant blocks, of which *good* could be read; a quoted one beside."""
    return {
        "model": model, "dialect": dialect, "seen": n + 1, "quoted": 1, "strict": good,
        "repaired": 0, "invalid": 0,
    }  # fmt: skip


def recommended(*rows: Row) -> Recommendation:
    [found] = recommendations(rows)
    return found


def told(found: Recommendation) -> tuple[str, str | None, Any, int | None, tuple[str, ...]]:
    return found.verdict, found.dialect, found.protocol, found.more_calls, found.avoid


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param(
            [row("text_tagged", 200, 190), row("event", 200, 120)],
            ("clear", "text_tagged", "text_tagged", None, ("event",)),
            id="one is better",
        ),
        pytest.param(
            [row("text_tagged", 20, 19), row("event", 20, 17)],
            ("open", None, None, 118, ()),
            id="too few calls to tell",
        ),
        pytest.param(
            [row("text_tagged", 9_000, 8_100), row("event", 9_000, 8_100)],
            ("open", None, None, None, ()),
            id="the same",
        ),
        pytest.param(
            [row("native", 300, 290), row("command", 300, 289), row("event", 300, 100)],
            ("open", None, None, 47_414, ("event",)),
            id="two of three",
        ),
        pytest.param(
            [row("event", 30, 30), row(None, 0, 0)],
            ("single", "event", None, None, ()),
            id="but one",
        ),
        pytest.param([row(None, 0, 0)], ("unknown", None, None, None, ()), id="no calls"),
        pytest.param(
            [row("native", 1, 1), row("event", 1_000, 950)],
            ("open", None, None, 149, ()),
            id="one of one proves nothing",
        ),
    ],
)
def test_recommendations(rows: list[Row], expected: Any) -> None:
    assert told(recommended(*rows)) == expected


def test_what_tools_did_says_nothing_of_the_writing() -> None:
    refused = row("event", 200, 100) | {"strict": 180, "invalid": 80, "failed": 100, "denied": 99}
    [_, found] = recommended(row("native", 200, 199), refused).contenders
    assert (found.dialect, found.n, found.good) == ("event", 200, 100)


def test_contenders_have_their_intervals_the_best_first() -> None:
    found = recommended(row("event", 100, 50), row("native", 100, 90)).contenders
    assert [each.dialect for each in found] == ["native", "event"]
    assert all(each.low < each.rate < each.high for each in found)


def test_each_model_has_its_own() -> None:
    rows = [row("event", 9, 9, "b"), row("native", 9, 9, "a"), row(None, 0, 0, None)]
    assert [found.model for found in recommendations(rows)] == ["", "a", "b"]


@pytest.mark.parametrize(
    ("dialect", "avoid", "protocol"),
    [
        ("native", (), "native_auto"),
        ("prompt_json", ("event",), "prompt_tools"),
        ("event", ("ksi_tool_use",), "ksi"),
        ("ksi_tool_use", (), "ksi"),
        ("ksi_tool_use", ("event",), {"preset": "ksi", "legacy_event": "reject"}),
        ("headed", (), "any"),
    ],
)
def test_the_protocol_of_a_dialect(dialect: str, avoid: tuple[str, ...], protocol: Any) -> None:
    assert protocol_for(dialect, avoid) == protocol


CLEAR = [row("native", 200, 190), row("event", 200, 100)]


def of(model: str, rows: list[Row]) -> list[Row]:
    return [each | {"model": model} for each in rows]


@pytest.mark.parametrize(
    ("rows", "protocol", "why"),
    [
        pytest.param([], None, "gpt-5 has made no call yet", id="nothing"),
        pytest.param(of("gpt-50", CLEAR), None, "gpt-5 has made no call yet", id="another model"),
        pytest.param(
            of("gpt-5", CLEAR), "native_auto", "native fits gpt-5 best, by 400 calls", id="clear"
        ),
        pytest.param(
            of("gpt-5-2026-01-31", CLEAR),
            "native_auto",
            "native fits gpt-5 best, by 400 calls",
            id="as its vendor calls it",
        ),
        pytest.param(
            [*of("gpt-5-mini", CLEAR), *of("gpt-5", [row("event", 9, 9)])],
            None,
            "gpt-5 has not tried two ways of writing yet",
            id="the very name counts more",
        ),
        pytest.param(
            of("gpt-5", [row("native", 9, 9), row("event", 9, 8)]),
            None,
            "no way of writing is known to be the best for gpt-5 yet",
            id="open",
        ),
    ],
)
def test_the_best_protocol_of_a_model(rows: list[Row], protocol: Any, why: str) -> None:
    assert best_protocol(recommendations(rows), "gpt-5") == (protocol, why)
