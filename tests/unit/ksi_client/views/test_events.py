from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from ksi_client.text import Paint, width
from ksi_client.views.events import LogLine, duration, headline, mark, outcome, summary
from ksi_client.wire import Ending, Push
from ksi_daemon.events import ErrorInfo, Event, Status

pytestmark = pytest.mark.usefixtures("utc")

PLAIN = Paint(False)


def event(name: str = "state:set", data: Any = None, **fields: Any) -> Event:
    given = {
        "seq": 7,
        "id": "e7",
        "ts": datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC),
        "source": "client:0",
        "correlation_id": "e1",
        "status": "handled",
    }
    raw = msgspec.Raw(msgspec.json.encode(data if data is not None else {"key": "k"}))
    return Event(name=name, data=raw, **{**given, **fields})


@pytest.mark.parametrize(
    ("given", "line"),
    [
        pytest.param(
            event(),
            '     #7  12:00:00.123  ✓ state:set               client:0          {"key":"k"}',
            id="handled",
        ),
        pytest.param(
            event(agent_id="ada", status="denied", error=ErrorInfo("denied", "not you")),
            "     #7  12:00:00.123  ⊘ state:set               ada               denied: not you  "
            '{"key":"k"}',
            id="denied, and why",
        ),
        pytest.param(
            event(data={}),
            "     #7  12:00:00.123  ✓ state:set               client:0",
            id="without data",
        ),
        pytest.param(
            event("agent:send", {"agent_id": "ada", "message": "hi\n\x1b[2J"}),
            r"     #7  12:00:00.123  ✓ agent:send              client:0          hi\n\e[2J",
            id="a message is shown as text, made visible",
        ),
    ],
)
def test_a_line_of_the_log(given: Event, line: str) -> None:
    assert LogLine(PLAIN, 110).event(given) == line


def test_a_narrow_terminal_goes_without_the_time() -> None:
    line = LogLine(PLAIN, 70).event(event())
    assert line == '     #7  ✓ state:set               client:0          {"key":"k"}'


@pytest.mark.parametrize("cells", [40, 60, 89, 90, 120, 200])
def test_a_line_ends_at_the_edge(cells: int) -> None:
    long = event("a" * 60 + ":b", {"text": "漢" * 500}, source="client:" + "9" * 40)
    failed = event(status="failed", error=ErrorInfo("code", "é" * 500))
    for given in (long, failed):
        assert width(LogLine(PLAIN, cells).event(given)) <= max(cells, 72)


@pytest.mark.parametrize(
    ("push", "line"),
    [
        pytest.param(
            Push(7, outcome=Ending("failed", None, ErrorInfo("x", "y"), 12.0)),
            "     #7                ✗ failed in 12 ms, x: y",
            id="an outcome stands below its event",
        ),
        pytest.param(
            Push(7, outcome=Ending("handled", {"a": 1}, None, 0.5)),
            "     #7                ✓ handled in 500 µs",
            id="a good one",
        ),
    ],
)
def test_a_line_for_an_outcome(push: Push, line: str) -> None:
    assert LogLine(PLAIN, 110).push(push) == line


def test_a_line_for_an_event_that_was_pushed() -> None:
    line = LogLine(PLAIN, 110)
    assert line.push(Push(7, event=event())) == line.event(event())


@pytest.mark.parametrize(
    ("status", "ms", "error", "text"),
    [
        pytest.param("handled", None, None, "handled", id="nothing more is known"),
        pytest.param("handled", 1.25, None, "handled in 1.2 ms", id="how long"),
        pytest.param("failed", 1.0, ErrorInfo("x", "y"), "failed in 1.0 ms, x: y", id="why"),
        pytest.param("denied", None, ErrorInfo("denied", "y"), "denied: y", id="said once"),
    ],
)
def test_outcome(status: Status, ms: float | None, error: ErrorInfo | None, text: str) -> None:
    assert outcome(status, ms, error) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0.31, "310 µs"), (1.25, "1.2 ms"), (412.3, "412 ms"), (2130, "2.1 s")],
)
def test_duration(ms: float, text: str) -> None:
    assert duration(ms) == text


@pytest.mark.parametrize(
    ("given", "text"),
    [
        pytest.param(event(data={}), "", id="no data"),
        pytest.param(event(data={"a": "\x9b"}), r'{"a":"\x9b"}', id="data as JSON"),
        pytest.param(
            event("completion:result", {"text": " Hello\n", "turn": 1}), "Hello", id="a reply"
        ),
        pytest.param(event("agent:send", {"message": 3}), '{"message":3}', id="no message"),
    ],
)
def test_summary(given: Event, text: str) -> None:
    assert summary(given) == text


def test_of_a_megabyte_only_the_beginning_is_looked_at() -> None:
    assert len(summary(event(data={"text": "x" * 1_000_000}))) == 2_000


@pytest.mark.parametrize(
    ("given", "line"),
    [
        pytest.param(event(), '✓ #7  state:set  client:0  {"key":"k"}', id="handled"),
        pytest.param(
            event(duration_ms=3.0), '✓ #7  state:set  client:0  3.0 ms  {"key":"k"}', id="timed"
        ),
        pytest.param(
            event(status="received"), '… #7  state:set  client:0  received  {"key":"k"}', id="open"
        ),
    ],
)
def test_headline(given: Event, line: str) -> None:
    assert headline(given, PLAIN, 100) == line
    assert headline(given, PLAIN, 100, about=False) == line.removesuffix('  {"key":"k"}')


@pytest.mark.parametrize("status", Status.__args__)  # type: ignore[attr-defined]
def test_every_status_has_a_mark(status: Status) -> None:
    assert len(mark(status, PLAIN)) == 1
