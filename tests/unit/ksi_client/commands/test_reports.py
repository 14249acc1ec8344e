from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from click.testing import Result

from ksi_client.testing import StubDaemon

ROW = {"model": "m", "seen": 3, "strict": 3, "handled": 3, "rate": 1.0, "low": 0.5, "high": 1.0}


@pytest.mark.parametrize(
    ("words", "data"),
    [
        pytest.param([], {"group_by": ["model", "dialect"]}, id="by default"),
        pytest.param(
            ["--by", "agent, tool", "--since", "2026-01-01T00:00:00Z", "--until", "9"],
            {"group_by": ["agent", "tool"], "since": "2026-01-01T00:00:00Z", "until": "9"},
            id="by other keys, for a time",
        ),
    ],
)
def test_reliability_asks(
    stub: StubDaemon, ksi: Callable[..., Result], words: list[str], data: dict[str, Any]
) -> None:
    stub.answers["monitor:reliability"] = {"rows": [ROW]}
    assert ksi("reliability", *words, text=False).stdout == msgspec.json.encode(ROW).decode() + "\n"
    assert msgspec.json.decode(stub.requests[0].data) == data


def test_reliability_for_people(stub: StubDaemon, ksi: Callable[..., Result]) -> None:
    stub.answers["monitor:reliability"] = {"rows": [ROW]}
    assert ksi("reliability", "--by", "model").stdout.splitlines() == [
        "model  completions  seen  strict  handled   rate  95 %        p50  p95  tokens",
        "m                0     3       3        3  100.0  50.0-100.0    -    -       0",
    ]


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
