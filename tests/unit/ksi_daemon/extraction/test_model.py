"""The values that extraction returns."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ksi_daemon.extraction.model import Call, Diagnostic, Extraction, Rejected, to_json

CALL = Call("a:b", {"x": 1}, "ksiu_1", False, "event", 2, 9, ("control_character",))
REJECTED = Rejected("missing_name", "no name", "ksi_tool_use", 10, 20, "...")


def test_prints_what_the_command_line_promises() -> None:
    assert to_json(Extraction("rest", (CALL,), (REJECTED,))) == {
        "calls": [
            {
                "name": "a:b",
                "args": {"x": 1},
                "id": "ksiu_1",
                "dialect": "event",
                "start": 2,
                "end": 9,
                "repairs": ["control_character"],
            }
        ],
        "rejected": [
            {
                "code": "missing_name",
                "message": "no name",
                "dialect": "ksi_tool_use",
                "start": 10,
                "end": 20,
            }
        ],
        "residual": "rest",
    }


@pytest.mark.parametrize(
    ("extraction", "told"),
    [
        pytest.param(Extraction("", final=None), {"final": None}, id="the answer null"),
        pytest.param(Extraction("", thought="t"), {"thought": "t"}, id="a thought"),
    ],
)
def test_as_json_with_an_answer_or_a_thought(extraction: Extraction, told: dict[str, Any]) -> None:
    assert to_json(extraction) == {"calls": [], "rejected": [], "residual": "", **told}


@pytest.mark.parametrize(
    ("value", "span"),
    [
        pytest.param(CALL, (2, 9), id="call"),
        pytest.param(REJECTED, (10, 20), id="rejected"),
        pytest.param(Diagnostic("extra_text", "", 3, 4), (3, 4), id="diagnostic"),
    ],
)
def test_has_a_span(value: Call | Rejected | Diagnostic, span: tuple[int, int]) -> None:
    assert value.span == span


def test_no_final_answer_is_not_the_answer_null() -> None:
    assert Extraction("").final is msgspec.UNSET
    assert Extraction("", final=None).final is None
