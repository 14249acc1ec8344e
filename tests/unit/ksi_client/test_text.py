from __future__ import annotations

import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_client.text import Paint, clip, pad, visible, visible_json, width, wrapped

# Every kind of character, the dangerous ones often.
anything = st.text(
    st.one_of(
        st.characters(),
        st.characters(categories=["Cc", "Cf", "Zl", "Zp"]),
        st.sampled_from("\x1b\x9b\u202e\u2066\u200b\r\n\t\x7f\u2028"),
    )
)
storable = anything.filter(lambda text: text.isprintable() or text.encode(errors="ignore"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("plain, é, 漢字, 👍", "plain, é, 漢字, 👍", id="what is visible stays"),
        pytest.param("\x1b[2J", r"\e[2J", id="escape sequences"),
        pytest.param("\x9b2J", r"\x9b2J", id="the one-byte form of them"),
        pytest.param("a\r\nb\tc\x00\x7f", r"a\r\nb\tc\x00\x7f", id="controls"),
        pytest.param("\u202egnp.exe", r"\u202egnp.exe", id="right-to-left override"),
        pytest.param("a\u200bb\ufeff", r"a\u200bb\ufeff", id="what has no width"),
        pytest.param("\U000e0041", r"\U000e0041", id="tags, in which text can be hidden"),
        pytest.param("\ud800", r"\ud800", id="half of a surrogate pair"),
        pytest.param("\u2028", r"\u2028", id="line separator"),
        pytest.param("نمی\u200cخواهم", "نمی\u200cخواهم", id="joiners stay"),
    ],
)
def test_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_visible_lines() -> None:
    assert visible("a\n\tb\x1b\r\nc", lines=True) == "a\n    b\\e\\r\nc"


@given(anything)
def test_nothing_that_is_not_visible_gets_through(text: str) -> None:
    shown = visible(text)
    assert "\n" not in shown
    assert all(c in "\u200c\u200d" or c.isprintable() for c in shown)
    assert not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in shown)
    assert visible(text, lines=True).count("\n") == text.count("\n")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_visible_json_is_the_same_value(text: str) -> None:
    shown = visible_json(msgspec.json.encode(text).decode())
    assert msgspec.json.decode(shown) == text
    assert all(c in "\u200c\u200d" or c.isprintable() for c in shown)


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        pytest.param("abc", 3, id="ascii"),
        pytest.param("漢字", 4, id="wide"),
        pytest.param("e\u0301", 1, id="a combining mark"),
        pytest.param("نمی\u200cخ", 4, id="a joiner"),
    ],
)
def test_width(text: str, cells: int) -> None:
    assert width(text) == cells


@pytest.mark.parametrize(
    ("text", "cells", "shown"),
    [
        pytest.param("abc", 3, "abc", id="fits"),
        pytest.param("abcd", 3, "ab…", id="cut"),
        pytest.param("漢字漢", 4, "漢…", id="never half a wide one"),
        pytest.param("abc", 0, "", id="no room"),
        pytest.param("abc", -2, "", id="less than none"),
        pytest.param("", 0, "", id="nothing"),
    ],
)
def test_clip(text: str, cells: int, shown: str) -> None:
    assert clip(text, cells) == shown


@given(storable.map(visible), st.integers(0, 30))
def test_clip_keeps_within_its_cells(text: str, cells: int) -> None:
    assert width(clip(text, cells)) <= cells


@pytest.mark.parametrize(
    ("text", "right", "shown"),
    [("ab", False, "ab  "), ("ab", True, "  ab"), ("漢", False, "漢  "), ("abcde", True, "abcde")],
)
def test_pad(text: str, right: bool, shown: str) -> None:
    assert pad(text, 4, right=right) == shown


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param("one two three", ["one two", "three"], id="at a space"),
        pytest.param("abcdefghij", ["abcdefg", "hij"], id="a long word"),
        pytest.param("one\n\ntwo", ["one", "", "two"], id="newlines stay"),
        pytest.param("漢字漢字漢字", ["漢字漢", "字漢字"], id="wide characters"),
        pytest.param("", [""], id="nothing"),
    ],
)
def test_wrapped(text: str, lines: list[str]) -> None:
    assert list(wrapped(text, 8)) == lines


@given(st.text(st.characters(categories=["L", "N", "Zs", "Po"])), st.integers(2, 20))
def test_wrapping_loses_nothing_but_spaces(text: str, cells: int) -> None:
    lines = list(wrapped(text, cells))
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(width(line) <= cells for line in lines)


def test_paint() -> None:
    assert Paint(True)("x", "red", "bold") == "\x1b[31;1mx\x1b[0m"
    assert Paint(True)("x", "") == "x"
    assert Paint(True)("", "red") == ""
    assert Paint(False)("x", "red") == "x"
