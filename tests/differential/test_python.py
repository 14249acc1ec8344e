"""Arguments in the syntax of Python, which is the oracle."""

from __future__ import annotations

import ast
import warnings
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.extraction import Extraction, extract, protocol
from tests.differential.python_texts import ACCEPT, DECIDED, REJECT
from tests.properties.written import SOME

PYTHONIC: Final = protocol("any", dialects=("pythonic",))
FRAMES: Final = {
    "list": "I'll do it.\n\n{}\n\nDone.\n",
    "marked": "<|tool_call_start|>{}<|tool_call_end|>",
    "fenced": "So:\n```tool_code\n{}\n```\n",
}
frames = pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A literal with one place where something was taken out or put in."""
    text = repr(draw(values))
    at = draw(st.integers(0, len(text)))
    taken = draw(st.integers(0, 2))
    put = draw(st.sampled_from(["", *"{}[]()\"',:\\=+-.x0 \n#", "f'", "r'", "''", '"""', "not "]))
    return text[:at] + put + text[at + taken :]


def as_json(value: Any) -> Any:
    """Return *value* with lists for tuples; TypeError if it has no form in JSON."""
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError
        return {key: as_json(each) for key, each in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError


def oracle(value: str) -> Any:
    """Return what Python reads in *value*; SyntaxError, ValueError or TypeError if no data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an unknown escape stands for itself
        tree = ast.parse(f"[f(v={value})]", mode="eval").body
    match tree:
        case ast.List([ast.Call(ast.Name("f"), [], [ast.keyword("v", node)])]):
            return as_json(ast.literal_eval(node))
    raise ValueError


def read(value: str, frame: str) -> Extraction:
    return extract(frame.replace("{}", f"[f(v={value})]"), PYTHONIC)


@frames
def test_accepts(frame: str) -> None:
    wrong = {}
    for name, value in ACCEPT.items():
        found = read(value, frame)
        if [call.args for call in found.calls] != [{"v": oracle(value)}] or found.rejected:
            wrong[name] = found
    assert wrong == {}


@frames
@pytest.mark.parametrize("table", [REJECT, DECIDED], ids=["no data", "refused data"])
def test_rejects(frame: str, table: dict[str, str]) -> None:
    wrong = {}
    for name, value in table.items():
        found = read(value, frame)
        if found.calls or (frame is not FRAMES["list"] and not found.rejected):
            wrong[name] = found
    assert wrong == {}


@pytest.mark.parametrize("value", REJECT.values(), ids=REJECT)
def test_python_has_no_data_there_either(value: str) -> None:
    with pytest.raises((SyntaxError, ValueError, TypeError)):
        oracle(value)


@frames
@SOME
@given(value=values)
def test_reads_any_literal(frame: str, value: object) -> None:
    [call] = read(repr(value), frame).calls
    assert (call.args, call.repairs) == ({"v": as_json(value)}, ())


@frames
@SOME
@given(value=damaged())
def test_agrees_about_damaged_literals(frame: str, value: str) -> None:
    calls = [call for call in read(value, frame).calls if not call.repairs]
    try:
        expected = oracle(value)
    except (SyntaxError, ValueError, TypeError):
        assert [call.args for call in calls if "v" in call.args] == []
    else:
        assert [call.args for call in calls] in ([], [{"v": expected}])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param("[f(v=None,), None])]", [], id="closed early"),
        pytest.param("[f(v=1), g(x=2), {}]", ["f"], id="the last call"),
        pytest.param("[f(v=1), g(x=", ["f"], id="cut off"),
    ],
)
def test_a_list_that_goes_on_with_no_call_refuses_the_last_one(text: str, names: list[str]) -> None:
    found = extract(text, PYTHONIC)
    assert [call.name for call in found.calls] == names
    assert len(found.rejected) == 1


def test_a_raw_line_end_in_a_key_is_a_repair() -> None:
    [call] = read("{'a\nb': 1}", FRAMES["marked"]).calls
    assert (call.args, call.repairs) == ({"v": {"a\nb": 1}}, ("control_character",))
