from __future__ import annotations

from typing import Any

import click
import pytest

from ksi_client.payload import payload


@pytest.mark.parametrize(
    ("words", "data"),
    [
        pytest.param((), {}, id="nothing"),
        pytest.param(('{"a": 1}', "b=x"), {"a": 1, "b": "x"}, id="an object and a field"),
        pytest.param(('{"a": 1}', "a=2"), {"a": 2}, id="the field wins"),
        pytest.param(("a=b=c", "n=null"), {"a": "b=c", "n": None}, id="values"),
    ],
)
def test_payload(words: tuple[str, ...], data: dict[str, Any]) -> None:
    assert payload(words) == data


@pytest.mark.parametrize("word", ["word", "=x", "{", "[1]"])
def test_what_is_no_payload(word: str) -> None:
    with pytest.raises(click.UsageError):
        payload((word,))
