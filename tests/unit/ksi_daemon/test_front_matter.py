from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.errors import ComponentError
from ksi_daemon.front_matter import lines, mapping, split
from ksi_daemon.strict_yaml import MAX_DEPTH
from tests.growth import LINEAR, doubling


@pytest.mark.parametrize(
    ("text", "front", "body"),
    [
        pytest.param("---\na: b\n---\nText.", "a: b", "Text.", id="both"),
        pytest.param(
            "Text.\n---\na: b\n---\n", "", "Text.\n---\na: b\n---\n", id="not at the head"
        ),
        pytest.param("---\na: b\nText.", "", "---\na: b\nText.", id="no end"),
        pytest.param("---\n---\nText.", "", "Text.", id="empty"),
        pytest.param("--- \t\r\na: b\r\n---\r\nText.\r\n", "a: b", "Text.\r\n", id="CRLF"),
        pytest.param("\ufeff---\na: b\n---\n", "a: b", "", id="byte order mark"),
        pytest.param("---\na: '---'\n---", "a: '---'", "", id="dashes in a value"),
    ],
)
def test_split(text: str, front: str, body: str) -> None:
    assert split(text) == (front, body)


@pytest.mark.parametrize(
    ("front", "fields"),
    [
        pytest.param("", {}, id="empty"),
        pytest.param("a: no", {"a": "no"}, id="no is no"),
        pytest.param("a: 1.10", {"a": "1.10"}, id="a version"),
        pytest.param("a: 2026-01-31", {"a": "2026-01-31"}, id="a date"),
        pytest.param("a: 010", {"a": "010"}, id="no octal"),
        pytest.param(
            "a: [1, true, null, -5]", {"a": [1, True, None, -5]}, id="whole numbers, true, null"
        ),
        pytest.param("a: 9999999999999999999", {"a": "9999999999999999999"}, id="a long number"),
        pytest.param("a: |\n  x\n  y", {"a": "x\ny"}, id="lines"),
    ],
)
def test_mapping(front: str, fields: dict[str, Any]) -> None:
    assert mapping(front, "n") == fields


@pytest.mark.parametrize(
    ("front", "reason"),
    [
        pytest.param("a: &a [x]\nb: *a", "aliases are not allowed", id="an alias"),
        pytest.param(
            "a: &a [x, x]\n" + "".join(f"b{n}: &b{n} [*a, *a]\n" for n in range(30)),
            "aliases are not allowed",
            id="a bomb",
        ),
        pytest.param("a: &a {b: *a}", "aliases are not allowed", id="itself"),
        pytest.param("<<: *a", "undefined alias|aliases are not", id="a merge"),
        pytest.param("a: " + "[" * (MAX_DEPTH + 1), "nests deeper", id="depth"),
        pytest.param("a: !!python/object/apply:os.getpid []", "constructor", id="a tag"),
        pytest.param("- a", "must be a mapping", id="a list"),
        pytest.param("text", "must be a mapping", id="a text"),
        pytest.param("1: a", "text keys", id="a number as a key"),
        pytest.param("? [a]\n: b", "unhashable|text keys", id="a list as a key"),
        pytest.param("a: \0", "not usable YAML", id="NUL"),
        pytest.param("a: \x1b", "not usable YAML", id="a control character"),
        pytest.param("a: b\n...\nc: d", "expected <document start>", id="two documents"),
        pytest.param("a: !!int x", "not usable YAML", id="a number that is none"),
        pytest.param(
            "a: b\nc: Use it: now",
            "mapping values are not allowed in this context at line 3, column 10$",
            id="a colon, with its place in the file",
        ),
    ],
)
def test_what_is_not_taken(front: str, reason: str) -> None:
    with pytest.raises(ComponentError, match=reason) as caught:
        mapping(front, "n")
    assert caught.value.code == "component_invalid"
    assert caught.value.message.startswith("'n': front matter ")


@pytest.mark.parametrize(
    ("front", "fields"),
    [
        pytest.param("", {}, id="empty"),
        pytest.param(
            "description: Use it when: asked # really",
            {"description": "Use it when: asked # really"},
            id="a colon",
        ),
        pytest.param(
            "a: one\n  two\n\n  three\nb: x", {"a": "one two three", "b": "x"}, id="lines"
        ),
        pytest.param("a:\n  - x\n  - y", {"a": "- x - y"}, id="a list is text"),
        pytest.param('a: \'x\'\nb: "y"\nc: "', {"a": "x", "b": "y", "c": '"'}, id="quotes"),
        pytest.param("# note\na: 1", {"a": "1"}, id="before the first key"),
        pytest.param("a: 1\na: 2", {"a": "1 2"}, id="a key twice"),
        pytest.param("a:1\nb : 2\nc:\t3\r", {"c": "3"}, id="no key"),
        pytest.param("globs: *.ts", {"globs": "*.ts"}, id="what YAML takes for an alias"),
    ],
)
def test_lines(front: str, fields: dict[str, str]) -> None:
    assert lines(front) == fields


@given(st.text())
def test_any_text_can_be_split_and_read(text: str) -> None:
    front, body = split(text)
    assert body in text
    lines(front)
    with suppress(ComponentError):
        assert isinstance(mapping(front, "n"), dict)


@pytest.mark.parametrize("piece", ["a: b\n", "---\n", "- ", " a", "a:\n", '"'])
def test_what_splitting_and_reading_lines_costs_doubles_with_the_text(piece: str) -> None:
    def cost(size: int) -> None:
        lines(split("---\n" + piece * size)[0] or piece * size)

    assert doubling(cost, 10_000) < LINEAR
