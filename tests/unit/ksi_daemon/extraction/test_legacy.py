"""What is complex for the direct form (S002-33)."""

from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.extraction.legacy import complexity


@pytest.mark.conformance
@pytest.mark.parametrize(
    ("args", "found"),
    [
        pytest.param({}, None, id="empty"),
        pytest.param({"a": "plain text, with marks!"}, None, id="plain string"),
        pytest.param({"a": 1, "b": None, "c": True}, None, id="scalars"),
        pytest.param({"a": {"b": 1}}, None, id="one level down"),
        pytest.param({"a": ["x", "y"]}, None, id="list of strings"),
        pytest.param({"a": "one\ntwo"}, "a string of several lines", id="newline"),
        pytest.param({"a": "one\rtwo"}, "a string of several lines", id="carriage return"),
        pytest.param({"a": 'x"y'}, "a quote, backslash or backtick in a string", id="quote"),
        pytest.param({"a": "x\\y"}, "a quote, backslash or backtick in a string", id="backslash"),
        pytest.param({"a": "`x`"}, "a quote, backslash or backtick in a string", id="backtick"),
        pytest.param({"a": {"b": {"c": 1}}}, "nested data", id="two levels down"),
        pytest.param({"a": [{"b": 1}]}, "nested data", id="object in a list"),
        pytest.param({"a": " [1, 2] "}, "a string that holds JSON", id="string that holds JSON"),
        pytest.param({"a": {"b": "x\ny"}}, "a string of several lines", id="newline one down"),
    ],
)
def test_S002_33_complex_is_defined(args: dict[str, Any], found: str | None) -> None:
    assert complexity(args) == found
