from __future__ import annotations

import io
import sys

import pytest

from ksi_client import progress
from ksi_client.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    found = Terminal()
    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    return found


def test_one_line_that_goes_away(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress("events", 2_000) as shown:
        shown.reach(500)
        shown.advance(500)
    assert terminal.getvalue() == (
        "\r\x1b[K500 of 2,000 events, 25%\r\x1b[K1,000 of 2,000 events, 50%\r\x1b[K"
    )


def test_the_total_need_not_be_known(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress("bytes", 0) as shown:
        shown.reach(1_234)
    assert "\r\x1b[K1,234 bytes\r" in terminal.getvalue()


def test_nothing_where_no_terminal_is(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("events", 2) as shown:
        shown.reach(1)
    assert capsys.readouterr().err == ""
