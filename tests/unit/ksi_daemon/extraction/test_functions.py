"""Functions as tools: what is told of each kind of parameter, and what is hidden."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, Union

import jsonschema_rs
import pytest
from msgspec import Meta
from pydantic import BaseModel

from ksi_daemon.extraction import protocol, teach
from ksi_daemon.extraction.functions import arguments, tool_of
from ksi_daemon.extraction.schemas import flaw
from ksi_daemon.extraction.signatures import parameters

if TYPE_CHECKING:
    from nowhere import Unknown

pytestmark = pytest.mark.conformance


def run_code(code: str, language: str = "python") -> str:
    """Executes code in a sandbox.

    The rest is for programmers.
    """
    return code


@dataclass
class Point:
    x: int


def everything(
    self: object,
    ctx: object,
    untyped,  # type: ignore[no-untyped-def]
    value: Any,
    maybe: Optional[int],  # noqa: UP045
    modern: int | None,
    either: Union[int, str],  # noqa: UP007
    names: list[str],
    mode: Literal["fast", "slow"],
    point: Point,
    foreign: Callable[[], None],
    *args: int,
    flag: bool = False,
    nothing: str | None = None,
    odd: object = object,
    **kwargs: str,
) -> None: ...


def test_S003_6_the_signature_becomes_lines() -> None:
    text = teach(protocol("prompt_tools"), [tool_of(run_code)])
    lines = text.splitlines()
    assert lines[2:9] == [
        "**run_code**",
        "Executes code in a sandbox.",
        "Parameters:",
        "  - code (str) (required)",
        "  - language (str) (optional, default: python)",
        "",
        "To use: Output JSON in this format:",
    ]


def test_S003_7_10_each_kind_of_parameter_has_its_line() -> None:
    assert list(parameters(tool_of(everything).schema)) == [
        "  - untyped (Any) (required)",
        "  - value (Any) (required)",
        "  - maybe (int | None) (required)",
        "  - modern (int | None) (required)",
        "  - either (int | str) (required)",
        "  - names (list[str]) (required)",
        "  - mode (Literal['fast', 'slow']) (required)",
        "  - point (dict) (required)",
        "  - foreign (Any) (required)",
        "  - flag (bool) (optional, default: false)",
        "  - nothing (str | None) (optional, default: null)",
        "  - odd (Any) (optional)",
    ]


def test_S003_9_10_no_parameters_and_no_docstring() -> None:
    def ping() -> None: ...

    text = teach(protocol("prompt_tools"), [tool_of(ping)])
    assert "**ping**\nTool: ping\nParameters:\n  (no parameters)\n" in text
    assert '{"tool": "ping", "arguments": {}}' in text


def test_a_method_and_another_name() -> None:
    class Box:
        def put(self, item: str) -> None:
            """Put something in."""

    tool = tool_of(Box().put, "box:put")
    assert (tool.name, tool.description) == ("box:put", "Put something in.")
    assert list(tool.schema["properties"]) == ["item"]


def test_what_an_annotation_refers_to_comes_along() -> None:
    def draw(points: list[Point]) -> None: ...

    schema = tool_of(draw).schema
    assert schema["properties"]["points"]["items"] == {"$ref": "#/$defs/Point"}
    assert schema["$defs"]["Point"]["required"] == ["x"]


def test_an_annotation_that_only_type_checkers_know() -> None:
    def odd(a: Unknown, b: int = 1) -> None: ...

    assert list(parameters(tool_of(odd).schema)) == [
        "  - a (Any) (required)",
        "  - b (Any) (optional, default: 1)",
    ]


def test_a_model_of_pydantic_says_what_it_takes() -> None:
    class Inner(BaseModel):
        y: int

    class Outer(BaseModel):
        inner: Inner

    def put(outer: Outer, many: list[Outer], maybe: Outer | None = None) -> None: ...

    put.__annotations__ = {"outer": Outer, "many": list[Outer], "maybe": Outer | None}
    schema = tool_of(put).schema
    fits, wrong = {"inner": {"y": 1}}, {"inner": {}}
    assert flaw(schema) is None
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid({"outer": fits, "many": [fits], "maybe": None})
    assert not validator.is_valid({"outer": wrong, "many": []})
    assert not validator.is_valid({"outer": fits, "many": [wrong]})


def test_what_an_annotation_says_besides_the_type_counts() -> None:
    def roll(sides: Annotated[int, Meta(ge=2, description="of the die")]) -> None: ...

    schema = tool_of(roll).schema
    assert schema["properties"]["sides"] == {
        "type": "integer",
        "minimum": 2,
        "description": "of the die",
    }


def test_the_types_of_the_arguments_are_those_that_json_can_have() -> None:
    def call(point: Point, foreign: Callable[[], None], untyped=None, *, ctx: object) -> None: ...  # type: ignore[no-untyped-def]

    assert arguments(call) == {"point": Point, "foreign": Any, "untyped": Any}


GOOGLE = """Send a message.

    Args:
        to: who gets it,
            by name.
        text (str): what it says
        urgent:

    Returns:
        to: not a parameter here
    """

REST = """Send a message.

    :param to: who gets it, by name.
    :param str text: what it says
    :returns: to: nothing
    """

NEITHER = """Send a message.

    Note: this is prose.
      text: so is this
    """


@pytest.mark.parametrize(
    ("doc", "told"),
    [
        pytest.param(GOOGLE, {"to": "who gets it, by name.", "text": "what it says"}, id="Args"),
        pytest.param(REST, {"to": "who gets it, by name.", "text": "what it says"}, id="fields"),
        pytest.param(NEITHER, {}, id="prose"),
        pytest.param("", {}, id="none"),
    ],
)
def test_what_the_docstring_says_of_a_parameter_is_told_with_it(
    doc: str, told: dict[str, str]
) -> None:
    def send(to: str, text: str, urgent: bool = False) -> None: ...

    send.__doc__ = doc
    fields = tool_of(send).schema["properties"]
    found = {name: field.get("description", "") for name, field in fields.items()}
    assert {name: words for name, words in found.items() if words} == told
