from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from click.testing import Result

from ksi_client.testing import StubDaemon


@pytest.mark.parametrize(
    ("words", "stdin", "data"),
    [
        pytest.param([], None, {}, id="no data"),
        pytest.param(['{"a": 1}'], None, {"a": 1}, id="an object"),
        pytest.param(["-"], '{"a": 1}', {"a": 1}, id="an object from stdin"),
        pytest.param(["a=1", "b=x y", "c="], None, {"a": 1, "b": "x y", "c": ""}, id="fields"),
        pytest.param(
            ["a=[1, null]", "b={no"], None, {"a": [1, None], "b": "{no"}, id="JSON or text"
        ),
        pytest.param(["a=b=c"], None, {"a": "b=c"}, id="the first sign divides"),
        pytest.param(['{"a": 1, "b": 2}', "b=3"], None, {"a": 1, "b": 3}, id="fields are added"),
    ],
)
def test_the_data(
    stub: StubDaemon,
    ksi: Callable[..., Result],
    words: list[str],
    stdin: str | None,
    data: dict[str, Any],
) -> None:
    stub.answers["test:echo"] = lambda given: given
    result = ksi("emit", "test:echo", *words, stdin=stdin, text=False)
    assert (result.exit_code, msgspec.json.decode(result.stdout)) == (0, data)


@pytest.mark.parametrize("word", ["[1]", "word", "=1", '{"a": 1', "{1}", "{" * 5000])
def test_what_are_no_data(ksi: Callable[..., Result], word: str) -> None:
    assert ksi("emit", "state:get", word).exit_code == 2


def test_how_the_daemon_is_to_take_it(stub: StubDaemon, ksi: Callable[..., Result]) -> None:
    ksi("emit", "state:get", "--wait", "logged", "--key", "k", "--timeout", "2.5")
    [asked] = stub.requests
    assert (asked.wait, asked.idempotency_key, asked.timeout) == ("logged", "k", 2.5)


def test_the_result_for_people(stub: StubDaemon, ksi: Callable[..., Result]) -> None:
    stub.answers["test:evil"] = {"a": "\x9b\u202e"}
    assert ksi("emit", "test:evil").stdout == '{\n  "a": "\\x9b\\u202e"\n}\n'
