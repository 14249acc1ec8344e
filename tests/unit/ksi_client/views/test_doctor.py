from __future__ import annotations

import pytest

from ksi_client.doctor import Finding
from ksi_client.text import Paint
from ksi_client.views.doctor import findings

OK = Finding("python", "ok", "3.11.7")
ODD = Finding("daemon", "warn", "the socket is left", "ksi up -d")
BAD = Finding("log", "fail", "\x1b[31mdamaged")


def test_lines() -> None:
    assert list(findings([OK, ODD, BAD], Paint(False), 80)) == [
        "✓ python  3.11.7",
        "! daemon  the socket is left",
        "          fix: ksi up -d",
        r"✗ log     \e[31mdamaged",
        "1 thing wrong, 1 worth a look",
    ]


@pytest.mark.parametrize(
    ("given", "summary"),
    [
        pytest.param([OK], "nothing is wrong", id="nothing"),
        pytest.param([OK, ODD], "1 worth a look", id="odd"),
        pytest.param([BAD, BAD], "2 things wrong", id="wrong"),
    ],
)
def test_the_last_line_counts(given: list[Finding], summary: str) -> None:
    assert list(findings(given, Paint(False), 80))[-1] == summary


def test_what_is_long_is_wrapped() -> None:
    lines = list(findings([Finding("log", "ok", "word " * 20)], Paint(False), 40))
    assert len(lines) > 2
    assert all(len(line) <= 40 for line in lines)
