from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ksi_daemon.errors import InvalidData
from ksi_daemon.schemas import MAX_SCHEMA_BYTES, decoder

ECHO: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "times": {"type": "integer", "minimum": 1}},
    "required": ["text"],
    "additionalProperties": False,
}


def decode(value: object) -> dict[str, Any]:
    return decoder(ECHO)(msgspec.Raw(msgspec.json.encode(value)))


def test_data_that_fit_are_returned() -> None:
    assert decode({"text": "hi", "times": 2}) == {"text": "hi", "times": 2}


@pytest.mark.parametrize(
    ("data", "paths", "words"),
    [
        pytest.param({"text": 5}, ["text"], ["string", "text"], id="wrong type"),
        pytest.param({}, [""], ["text", "required"], id="missing"),
        pytest.param({"text": "a", "zzz": 1}, [""], ["zzz"], id="surplus"),
        pytest.param({"text": 5, "times": 0}, ["text", "times"], ["minimum"], id="two at once"),
    ],
)
def test_every_place_that_does_not_fit_is_named(
    data: dict[str, Any], paths: list[str], words: list[str]
) -> None:
    with pytest.raises(InvalidData) as caught:
        decode(data)
    errors = (caught.value.details or {})["errors"]
    assert sorted(error["path"] for error in errors) == paths
    assert all(word in caught.value.message for word in words)


def test_the_piece_of_the_schema_is_told() -> None:
    with pytest.raises(InvalidData) as caught:
        decode({"text": 5})
    assert (caught.value.details or {})["errors"][0]["schema"] == {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        pytest.param({"type": "strnig"}, "strnig", id="no such type"),
        pytest.param({"$ref": "http://127.0.0.1:9/x"}, "nothing is fetched", id="remote"),
        pytest.param({"pattern": "("}, "no usable JSON Schema", id="bad pattern"),
        pytest.param({"title": "x" * MAX_SCHEMA_BYTES}, "larger than", id="too large"),
    ],
)
def test_what_is_no_schema_is_refused(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        decoder(schema)
