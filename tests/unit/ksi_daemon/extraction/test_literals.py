"""The machine that reads literals, with a language that has nothing but digits."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from ksi_daemon.extraction.literals import (
    Bracket,
    Halt,
    Language,
    Literal,
    Token,
    past_blanks,
    read_literal,
)


def digit(text: str, at: int) -> Token | Halt:
    found = text[at : at + 1]
    return Token(int(found), at + 1) if found.isdigit() else Halt(at, "a digit", not found)


def key(text: str, at: int) -> Token | Halt:
    if text.startswith("*", at):
        return Token(None, at + 1)
    name = text[at : at + 1]
    return Token(name, at + 2) if name.isalpha() else Halt(at, "a key", not name)


OBJECT = Bracket("}", key)
DIGITS = Language(
    MappingProxyType(
        {
            "[": Bracket("]"),
            "{": OBJECT,
            "(": Bracket(")", group=True),
            "<": Bracket(">", key, True),
        }
    ),
    digit,
)


def read(text: str, bracket: Bracket = DIGITS.brackets["["]) -> Literal | Halt:
    return read_literal(text, 1, DIGITS, bracket)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[]", []),
        ("[ 1 , 2 ]", [1, 2]),
        ("[1,]", [1]),
        ("[[],[1,[2]]]", [[], [1, [2]]]),
        ("[(1),(1,),(),((1))]", [1, [1], [], 1]),
        ("[{a:1,b:{c:2}},{}]", [{"a": 1, "b": {"c": 2}}, {}]),
        ("[{*{a:1},b:2}]", [{"a": 1, "b": 2}]),
        ("[<a=1>]", [{"a": 1}]),
    ],
)
def test_reads_nested_values(text: str, value: Any) -> None:
    assert read(text) == Literal(len(text), value, (), False)


@pytest.mark.parametrize(
    ("text", "halt"),
    [
        ("[", Halt(1, "a digit", True)),
        ("[1", Halt(2, "',' or ']'", True)),
        ("[1}", Halt(2, "',' or ']'", False)),
        ("[,", Halt(1, "a digit", False)),
        ("[1,,", Halt(3, "a digit", False)),
        ("[{1", Halt(2, "a key", False)),
        ("[{a:x", Halt(4, "a digit", False)),
        ("[{*1}]", Halt(2, "an object behind '**'", False)),
        ("[<a=1,a=2>]", Halt(6, "an argument that was not given before", False)),
        ("[<a=1,*{a:2}>]", Halt(6, "an argument that was not given before", False)),
    ],
)
def test_says_where_it_stops(text: str, halt: Halt) -> None:
    assert read(text) == halt


def test_the_last_of_two_values_counts() -> None:
    assert read("{a:1,b:1,a:2}", OBJECT) == Literal(13, {"a": 2, "b": 1}, ("a",), False)


def test_blanks_are_those_of_ascii() -> None:
    assert [past_blanks(" \t\r\n\fx", 0), past_blanks("x", 0), past_blanks("\u3000x", 0)] == [
        5,
        0,
        0,
    ]
    assert past_blanks("", 0) == 0
