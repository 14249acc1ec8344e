from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from click.testing import Result

from ksi_client.testing import StubDaemon

ROW = {"model": "m", "seen": 3, "strict": 3, "handled": 3, "rate": 1.0, "low": 0.5, "high": 1.0}
DEFAULT = {"group_by": ["model", "dialect"]}


def day(number: int) -> dict[str, Any]:
    return {**ROW, "quoted": 0, "p50_ms": 1.0, "p95_ms": 1.0, "day": f"2026-01-{number:02}"}


def hour(number: int) -> dict[str, Any]:
    return {**day(1), "hour": f"2026-01-01T{number:02}:00:00Z"}


def asked(stub: StubDaemon) -> list[Any]:
    return [msgspec.json.decode(request.data) for request in stub.requests]


@pytest.mark.parametrize(
    ("words", "data"),
    [
        pytest.param([], DEFAULT, id="by default"),
        pytest.param(
            ["--by", "agent, tool", "--since", "2026-01-01T00:00:00Z", "--until", "9"],
            {
                "group_by": ["agent", "tool"],
                "since": "2026-01-01T00:00:00+00:00",
                "until": "1970-01-01T00:00:09+00:00",
            },
            id="by other keys, for a time",
        ),
        pytest.param(["--exact"], DEFAULT | {"exact": True}, id="by a full scan"),
    ],
)
def test_reliability_asks(
    stub: StubDaemon, ksi: Callable[..., Result], words: list[str], data: dict[str, Any]
) -> None:
    stub.answers["monitor:reliability"] = {"rows": [ROW]}
    assert ksi("reliability", *words, text=False).stdout == msgspec.json.encode(ROW).decode() + "\n"
    assert asked(stub) == [data]


@pytest.mark.parametrize(("last", "hours"), [("24h", 24), ("7d", 168)])
def test_the_last_hours_begin_with_a_full_one(
    stub: StubDaemon, ksi: Callable[..., Result], last: str, hours: int
) -> None:
    stub.answers["monitor:reliability"] = {"rows": []}
    before = datetime.now(UTC) - timedelta(hours=hours)
    ksi("reliability", "--last", last)
    since = datetime.fromisoformat(asked(stub)[0]["since"].replace("Z", "+00:00"))
    assert (since.minute, since.second) == (0, 0)
    assert timedelta(0) <= before - since + timedelta(minutes=1) < timedelta(hours=1, minutes=2)


def test_reliability_for_people(stub: StubDaemon, ksi: Callable[..., Result]) -> None:
    stub.answers["monitor:reliability"] = {"rows": [ROW]}
    assert ksi("reliability", "--by", "model").stdout.splitlines() == [
        "model  completions  seen  strict  handled   rate  95 %        p50  p95  p99  tokens",
        "m                0     3       3        3  100.0  50.0-100.0    -    -    -       0",
    ]


def test_nothing_in_a_time(stub: StubDaemon, ksi: Callable[..., Result]) -> None:
    stub.answers["monitor:reliability"] = {"rows": []}
    assert ksi("reliability", "--since", "2h").stdout == "no completions in this time\n"
    assert ksi("reliability").stdout.startswith("no completions yet")
    assert ksi("reliability", "--since", "2h", text=False).stdout == ""


def test_reliability_in_detail(stub: StubDaemon, ksi: Callable[..., Result]) -> None:
    stub.answers["monitor:reliability"] = {"rows": [{**ROW, "rejections": {"not_json": 2}}]}
    assert ksi("reliability", "--by", "model", "--details").stdout.splitlines()[2:] == [
        "",
        "m",
        "  rejected   not_json 2",
    ]


@pytest.mark.parametrize(
    ("by", "days", "steps"),
    [
        pytest.param("model", 9, ["day"], id="many days"),
        pytest.param("model", 1, ["day", "hour"], id="a few hours"),
        pytest.param("hour,model", 1, ["hour"], id="as it was asked for"),
    ],
)
def test_a_trend(
    stub: StubDaemon, ksi: Callable[..., Result], by: str, days: int, steps: list[str]
) -> None:
    answers = {"day": [day(n + 1) for n in range(days)], "hour": [hour(n) for n in range(5)]}
    stub.answers["monitor:reliability"] = lambda data: {"rows": answers[data["group_by"][-1]]}
    lines = ksi("reliability", "--by", by, "--trend").stdout.splitlines()
    assert lines[:2] == ["m", "100.0 ┤" + "●" * (days if steps == ["day"] else 5)]
    assert [each["group_by"] for each in asked(stub)] == [["model", step] for step in steps]


def test_a_trend_as_vega(stub: StubDaemon, ksi: Callable[..., Result]) -> None:
    stub.answers["monitor:reliability"] = {"rows": [day(n) for n in range(1, 9)]}
    chart = msgspec.json.decode(ksi("reliability", "--by", "model", "--vega").stdout)
    assert len(chart["data"]["values"]) == 8
    assert chart["$schema"].startswith("https://vega.github.io/")


def test_recommendations(stub: StubDaemon, ksi: Callable[..., Result]) -> None:
    each = {"model": "m", "verdict": "unknown", "protocol": None, "contenders": []}
    stub.answers["monitor:reliability"] = {"rows": [], "recommendations": [each]}
    assert ksi("reliability", "--recommend").stdout.splitlines() == ["m", "  made no call yet"]
    assert msgspec.json.decode(ksi("reliability", "--recommend", text=False).stdout) == each
    assert asked(stub)[0] == DEFAULT | {"include": ["recommendations"]}


def test_a_migration(stub: StubDaemon, ksi: Callable[..., Result]) -> None:
    found: dict[str, Any] = {"phases": [], "kinds": [], "furthest": "warn"}
    stub.answers["monitor:reliability"] = {"rows": [], "migration": found}
    assert ksi("reliability", "--migration").stdout.endswith("legacy_event: warn}\n")
    assert msgspec.json.decode(ksi("reliability", "--migration", text=False).stdout) == found
    assert asked(stub)[0] == DEFAULT | {"include": ["migration"]}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ["--trend", "--vega"],
            "only one of --details, --trend, --vega, --recommend, --migration",
            id="two forms",
        ),
        pytest.param(["--last", "1d", "--since", "9"], "either --last or --since", id="two times"),
        pytest.param(["--last", "soon"], "'soon' is no length of time", id="no length"),
        pytest.param(["--since", "soon"], "'soon' is no time", id="no time"),
        pytest.param(["--by", "model,nope"], "no key 'nope'; there are agent, model,", id="no key"),
        pytest.param(["--by", ","], "no key ''; there are agent, model,", id="no keys at all"),
    ],
)
def test_what_cannot_be_asked(ksi: Callable[..., Result], words: list[str], message: str) -> None:
    done = ksi("reliability", *words)
    assert done.exit_code == 2
    assert message in done.stderr


def test_stats(stub: StubDaemon, ksi: Callable[..., Result]) -> None:
    stub.answers |= {
        "system:health": {"status": "ok"},
        "system:stats": {"cpu_s": 0.5},
        "monitor:get_stats": {"bytes": 4096},
    }
    assert ksi("stats").stdout.splitlines() == [
        "daemon",
        "  status  ok",
        "process",
        "  cpu_s  0.5",
        "log",
        "  bytes  4096",
    ]
    assert msgspec.json.decode(ksi("stats", text=False).stdout) == {
        "daemon": {"status": "ok"},
        "process": {"cpu_s": 0.5},
        "log": {"bytes": 4096},
    }
