"""The tool form."""

from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.extraction.dialects import Draft, Fault
from ksi_daemon.extraction.dialects.ksi_tool_use import ToolUseDialect

USE = ToolUseDialect()
NO_ID = (("id_generated", "the block had no usable id"),)


def block(**changes: Any) -> dict[str, Any]:
    whole = {"type": "ksi_tool_use", "id": "ksiu_1", "name": "a:b", "input": {"x": 1}, **changes}
    return {key: value for key, value in whole.items() if value is not ...}


@pytest.mark.parametrize("strict", [True, False])
def test_reads(strict: bool) -> None:
    assert USE.read(block(), strict=strict) == Draft("a:b", {"x": 1}, "ksiu_1")


@pytest.mark.parametrize(
    ("id", "draft", "message"),
    [
        pytest.param(..., Draft("a:b", {"x": 1}, None, None, NO_ID), "got None", id="missing"),
        pytest.param("", Draft("a:b", {"x": 1}, None, None, NO_ID), "got ''", id="empty"),
        pytest.param(5, Draft("a:b", {"x": 1}, None, None, NO_ID), "got 5", id="number"),
        pytest.param(
            "x1",
            Draft(
                "a:b",
                {"x": 1},
                "x1",
                None,
                (("missing_id", "the id 'x1' does not start with 'ksiu_'"),),
            ),
            "got 'x1'",
            id="other prefix",
        ),
    ],
)
def test_ids(id: Any, draft: Draft, message: str) -> None:
    assert USE.read(block(id=id), strict=False) == draft
    fault = Fault("missing_id", f"'id' must be text that starts with 'ksiu_', {message}")
    assert USE.read(block(id=id), strict=True) == fault


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        pytest.param(..., "None", id="missing"),
        pytest.param("", "''", id="empty"),
        pytest.param(5, "5", id="number"),
        pytest.param("two words", "'two words'", id="words"),
        pytest.param("[event_name]", "'[event_name]'", id="placeholder"),
        pytest.param("а:b", "'а:b'", id="look-alike letter"),
        pytest.param("a:b:c", "'a:b:c'", id="two colons"),
        pytest.param("n" * 129, f"'{'n' * 59}", id="long"),
    ],
)
def test_names_must_be_those_of_events(name: Any, shown: str) -> None:
    fault = Fault(
        "missing_name", f"'name' must name an event or a tool, such as 'agent:status', got {shown}"
    )
    assert USE.read(block(name=name), strict=False) == fault


@pytest.mark.parametrize("name", ["read_file", "math.power", "kom.memory.v1.search-x"])
def test_tools_may_have_plain_names(name: str) -> None:
    assert USE.read(block(name=name), strict=True) == Draft(name, {"x": 1}, "ksiu_1")


@pytest.mark.parametrize(
    ("value", "args"), [(..., {}), (None, {}), ("", {}), ('{"y": 2}', {"y": 2})]
)
def test_input_that_lenient_reads(value: Any, args: dict[str, Any]) -> None:
    assert USE.read(block(input=value), strict=False) == Draft("a:b", args, "ksiu_1")
    assert isinstance(USE.read(block(input=value), strict=True), Fault)


@pytest.mark.parametrize(
    ("value", "kind"), [([1], "a list"), ("no", "text"), ("[1]", "text"), (1.5, "a number")]
)
def test_input_must_be_an_object(value: Any, kind: str) -> None:
    fault = Fault("args_type", f"'input' must be an object, got {kind}")
    assert USE.read(block(input=value), strict=False) == fault


@pytest.mark.parametrize("kind", ["KSI_TOOL_USE", "tool_use", "ksi_tool_use ", None, 1])
def test_other_types_are_not_read(kind: Any) -> None:
    assert USE.read(block(type=kind), strict=False) is None


def test_says_where_arguments_belong_that_stand_elsewhere() -> None:
    fault = Fault("args_type", "'input' is missing; 'arguments' belong in it")
    assert USE.read(block(input=..., arguments={"x": 1}), strict=False) == fault


def test_notes_what_it_ignores() -> None:
    notes = (("unknown_field", "ignored 'at'"),)
    read = USE.read(block(at=1, _x=2), strict=False)
    assert read == Draft("a:b", {"x": 1}, "ksiu_1", None, notes)


def test_writes() -> None:
    assert USE.write("a:b", {"x": "é"}, "ksiu_1") == (
        '{"type": "ksi_tool_use", "id": "ksiu_1", "name": "a:b", "input": {"x": "é"}}'
    )
