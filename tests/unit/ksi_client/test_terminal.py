from __future__ import annotations

import os
import pty
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from ksi_client.terminal import Screen, keys_of


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        pytest.param(b"", [], id="nothing"),
        pytest.param(b"qp /", ["q", "p", " ", "/"], id="letters"),
        pytest.param("ä漢".encode(), ["ä", "漢"], id="letters of others"),
        pytest.param(b"\x1b[A\x1b[B\x1bOA", ["up", "down", "up"], id="arrows"),
        pytest.param(b"\x1b[5~x\x1b[6~", ["pgup", "x", "pgdn"], id="among others"),
        pytest.param(b"\t\x1b[Z", ["tab", "backtab"], id="tab and back"),
        pytest.param(b"\r\n\x7f\x08", ["enter", "enter", "backspace", "backspace"], id="a line"),
        pytest.param(b"\x1b", ["esc"], id="escape alone"),
        pytest.param(b"\x1bq", ["esc", "q"], id="escape, then a letter"),
        pytest.param(b"\x1b[200~x\x1b[1;5C", ["x"], id="what is not known"),
        pytest.param(b"\x1b[", [], id="cut off"),
        pytest.param(b"\x0c\x00\xff", ["redraw"], id="what is no key"),
    ],
)
def test_keys(data: bytes, keys: list[str]) -> None:
    assert list(keys_of(data)) == keys


@contextmanager
def terminal() -> Iterator[int]:
    """Make a pseudo terminal the process's own; yield the other end of it."""
    master, slave = pty.openpty()
    with (
        open(slave, "r+b", buffering=0) as file,
        os.fdopen(os.dup(slave), "w") as out,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(sys, "stdin", file)
        patch.setattr(sys, "stdout", out)
        yield master
    os.close(master)


def read_to_the_end(other: int) -> str:
    """Return what was written until the terminal was given back."""
    written = ""
    while not written.endswith("\x1b[?1049l"):
        written += os.read(other, 4096).decode()
    return written


def test_a_screen_is_taken_and_given_back() -> None:
    with terminal() as other:
        before = termios.tcgetattr(sys.stdin.fileno())
        with suppress(KeyError), Screen() as screen:
            assert screen.size == (80, 24)
            os.write(other, b"q")
            assert screen.keys(5) == ["q"]
            assert screen.keys(0) == []
            screen.draw(["one", "two"])
            screen.draw(["one", "2"])
            raise KeyError
        assert termios.tcgetattr(sys.stdin.fileno()) == before
        written = read_to_the_end(other)
    assert written.startswith("\x1b[?1049h")
    assert written.endswith("\x1b[?25h\x1b[?1049l")  # the cursor and the screen of before
    assert written.count("one") == 1
    assert "\x1b[2;1H2\x1b[0m\x1b[K" in written


def test_all_is_drawn_anew_when_it_is_asked_for() -> None:
    with terminal() as other:
        with Screen() as screen:
            screen.draw(["one"])
            screen.forget()
            screen.draw(["one"])
        assert read_to_the_end(other).count("one") == 2
