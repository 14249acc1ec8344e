from __future__ import annotations

import random
from typing import Any

import pytest

from ksi_daemon.providers.native_slips import lost, slipped
from ksi_daemon.providers.slips import SLIPS

ARGUMENTS = '{"key": "it\'s", "value": {"text": "a\\nb", "done": true, "parts": [1, 2]}}'


def call(id: str, arguments: Any = ARGUMENTS, name: str = "state_set") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def message(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": "Text.", "tool_calls": list(calls)}


MEANT = message(call("c1"))


@pytest.mark.parametrize("kind", SLIPS)
def test_each_slip_changes_the_arguments_and_nothing_else(kind: str) -> None:
    said = slipped(MEANT, kind, random.Random(1))
    assert said is not None
    [changed] = said["tool_calls"]
    assert changed["function"]["arguments"] != ARGUMENTS
    assert said == message(call("c1", changed["function"]["arguments"]))
    assert message(call("c1")) == MEANT


def test_a_call_that_is_made_twice_has_two_ids() -> None:
    said = slipped(MEANT, "duplicate", random.Random(1))
    assert said == message(call("c1"), call("c1_again"))


@pytest.mark.parametrize(
    ("meant", "kind"),
    [
        pytest.param({"role": "assistant", "content": "x"}, "comment", id="no calls"),
        pytest.param(message(call("c1", {"key": 1})), "comment", id="arguments as an object"),
        pytest.param(message(call("c1", "")), "comment", id="no arguments"),
        pytest.param(message(call("c1", "{}")), "python_literal", id="no place in them"),
        pytest.param(MEANT, "prose", id="a slip of replies"),
        pytest.param(MEANT, "wrong_fence", id="a slip of calls in text"),
        pytest.param({"tool_calls": ["x", {"function": 7}]}, "comment", id="what is no call"),
        pytest.param(
            {"content": [{"type": "tool_use", "id": "a", "name": "b", "input": {}}]},
            "comment",
            id="another vendor",
        ),
    ],
)
def test_where_there_is_no_place_there_is_no_slip(meant: dict[str, Any], kind: str) -> None:
    assert slipped(meant, kind, random.Random(1)) is None


def test_what_was_rejected_is_lost_and_the_rest_is_not() -> None:
    meant = message(call("c1"), call("c2"), call("c3"))
    said = message(call("c1"), call("c2", ARGUMENTS[:20]), call("c3"))
    assert lost(meant, said) == {**message(call("c2_more")), "content": ""}


def test_what_can_be_read_is_not_lost() -> None:
    assert lost(MEANT, message(call("c1"), call("c1_again"))) is None
