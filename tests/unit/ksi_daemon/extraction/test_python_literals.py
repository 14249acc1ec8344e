"""Calls in the syntax of Python, held to Python's own parser."""

from __future__ import annotations

import ast
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.extraction.literals import Halt
from ksi_daemon.extraction.python_literals import (
    ARGUMENT,
    PythonCall,
    is_argument_name,
    read_call,
)
from tests.growth import LINEAR, doubling, repeated


def arguments(text: str) -> Any:
    read = read_call(text, 0)
    assert isinstance(read, PythonCall), read
    assert read.end == len(text)
    return read.arguments.value


def by_python(text: str) -> dict[str, Any] | None:
    """Return the arguments as Python reads them, None if it does not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError):
            return None
        if not isinstance(call, ast.Call) or call.args:
            return None
        try:
            return {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
        except ValueError:
            return None


def as_json(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [as_json(each) for each in value]
    if isinstance(value, dict):
        return {key: as_json(each) for key, each in value.items()}
    return value


@pytest.mark.parametrize(
    "written",
    [
        "f()",
        "f(a=1, b='x', c=[1, 2.5, True], d={'k': None})",
        "f( a = 1 ,\n  b = 2,\n)",
        "f(a=-1, b=+2, c=- 3, d=-.5, e=5., f=1e-3, g=1_000, h=0x1F, i=0o17, j=0b11, k=00)",
        "f(a=(1,), b=(1, 2), c=(), d=(1), e=((('x'))), f=[(1,), (2)])",
        "f(a={}, b=[], c={'a': {'b': [{}]}}, d=[[[]]])",
        "f(a='it\\'s', b=\"say \\\"hi\\\"\", c='tab\\tline\\nback\\\\')",
        "f(a='\\x41\\u0042\\U0001F600\\101\\0\\N{BULLET}\\a\\b\\f\\v\\r')",
        "f(a='\\d\\,\\q', b=r'\\d\\n', c=R\"a\\\"b\", d=u'x', e=U'y')",
        'f(a=\'\'\'it\'s "raw"\nand more\'\'\', b="""x"y""z""", c=\'\')',
        "f(a='a\\\nb')",
        "f(a=')]}', b=']', c='#', d='\u00e9\u3000\U0001f600')",
    ],
)
def test_reads_what_python_reads(written: str) -> None:
    assert arguments(written) == as_json(by_python(written))


@pytest.mark.parametrize(
    ("written", "value"),
    [
        pytest.param("f(a=true, b=false, c=null)", {"a": True, "b": False, "c": None}, id="JSON"),
        pytest.param("f(from=1, class='x')", {"from": 1, "class": "x"}, id="keywords"),
        pytest.param("f(**{'a b': 1}, c=2)", {"a b": 1, "c": 2}, id="a dictionary behind stars"),
        pytest.param("f(ſ=1)", {"ſ": 1}, id="a name is not normalised"),
        pytest.param("f(a='x\ny')", {"a": "x\ny"}, id="a raw line end"),
        pytest.param("notes:save(a=1)", {"a": 1}, id="an event"),
        pytest.param("a-b/c.d(a=1)", {"a": 1}, id="a tool of another system"),
    ],
)
def test_reads_what_python_does_not(written: str, value: dict[str, Any]) -> None:
    assert by_python(written) != value
    assert arguments(written) == value


@pytest.mark.parametrize(
    ("written", "at", "expected"),
    [
        pytest.param("f(1)", 2, ARGUMENT, id="positional"),
        pytest.param("f(a=1, 2)", 7, ARGUMENT, id="positional behind a keyword"),
        pytest.param("f(*a)", 2, ARGUMENT, id="star"),
        pytest.param("f(a==1)", 2, ARGUMENT, id="comparison"),
        pytest.param("f(**a)", 4, "a literal value", id="stars and a name"),
        pytest.param("f(**[1])", 2, "an object behind '**'", id="stars and a list"),
        pytest.param("f(a=b)", 4, "a literal value", id="a name"),
        pytest.param("f(a=g(b=1))", 4, "a literal value", id="a call"),
        pytest.param("f(a=nan)", 4, "a literal value", id="nan"),
        pytest.param("f(a=f'{x}')", 4, "a literal value", id="a format string"),
        pytest.param("f(a=b'x')", 4, "a literal value", id="bytes"),
        pytest.param("f(a=1j)", 4, "a literal value", id="complex"),
        pytest.param("f(a=007)", 4, "a literal value", id="leading zeros"),
        pytest.param("f(a=--1)", 4, "a literal value", id="two signs"),
        pytest.param("f(a=lambda: 1)", 4, "a literal value", id="lambda"),
        pytest.param("f(a=1+1)", 5, "',' or ')'", id="an operator"),
        pytest.param("f(a=1 for b in c)", 6, "',' or ')'", id="a comprehension"),
        pytest.param("f(a='x'.y)", 7, "',' or ')'", id="an attribute"),
        pytest.param("f(a=[1][0])", 7, "',' or ')'", id="an index"),
        pytest.param("f(a='x' 'y')", 8, "',' or ')'", id="strings side by side"),
        pytest.param("f(a=['x' 'y'])", 9, "',' or ']'", id="a comma missing"),
        pytest.param("f(a='it's')", 8, "',' or ')'", id="a quote not escaped"),
        pytest.param("f(a={1: 2})", 5, "a key in quotes", id="a number for a key"),
        pytest.param("f(a={'x'})", 8, "':' behind the key", id="a set"),
        pytest.param("f(a=[1)", 6, "',' or ']'", id="the wrong bracket"),
        pytest.param("f(,)", 2, ARGUMENT, id="a comma alone"),
        pytest.param("f(a=1, a=2)", 7, "an argument that was not given before", id="twice"),
        pytest.param("f(a='\\xzz')", 5, "a valid escape", id="half an escape"),
        pytest.param("f(a='x\\N{NO SUCH}')", 6, "a valid escape", id="no such character"),
        pytest.param("f(a='\\U00110000')", 5, "a valid escape", id="beyond Unicode"),
        pytest.param("f(a=1e999)", 4, "a number within the range of a double", id="infinite"),
        pytest.param(f"f(a=1{'0' * 3500})", 4, "a number of at most 3500 digits", id="too long"),
        pytest.param("1(a=1)", 0, "a call", id="no name"),
    ],
)
def test_says_where_it_stops(written: str, at: int, expected: str) -> None:
    assert read_call(written, 0) == Halt(at, expected, False)


@pytest.mark.parametrize("length", range(len("f(a='x', b=[1, {'k': True}])")))
def test_a_text_that_ends_within_a_call_is_ended(length: int) -> None:
    read = read_call("f(a='x', b=[1, {'k': True}])"[:length], 0)
    assert isinstance(read, Halt)
    assert read.ended


def test_a_key_given_twice_is_told() -> None:
    read = read_call("f(a={'k': 1, 'k': 2})", 0)
    assert isinstance(read, PythonCall)
    assert (read.arguments.value, read.arguments.repeated) == ({"a": {"k": 2}}, ("k",))


@pytest.mark.parametrize(
    ("written", "control"),
    [("f(a='x\ny')", True), ("f(a='''x\ny''')", False), ("f(a='x\\\ny')", True), ("f()", False)],
)
def test_a_raw_line_end_in_a_short_string_is_told(written: str, control: bool) -> None:
    read = read_call(written, 0)
    assert isinstance(read, PythonCall)
    assert read.arguments.control is control


@pytest.mark.parametrize(
    ("name", "plain"), [("a", True), ("é1", True), ("a b", False), ("", False)]
)
def test_names_of_arguments(name: str, plain: bool) -> None:
    assert is_argument_name(name) is plain


def test_depth_costs_no_recursion() -> None:
    depth = 100_000
    read = read_call(f"f(a={'[' * depth}{']' * depth})", 0)
    assert isinstance(read, PythonCall)


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(st.characters(categories=("Ll",)), min_size=1), _values))
def test_reads_what_repr_writes(args: dict[str, Any]) -> None:
    assert arguments(f"f({', '.join(f'{key}={value!r}' for key, value in args.items())})") == args


_PIECES = [
    "'",
    '"',
    "'''",
    "\\",
    "a=",
    "b=",
    "f(",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "1",
    "-",
]
_PIECES += ["x", " ", "r", "u", "0x1", ".5", "e3", "_", "True", "None", "\\x41", "\\n", "\\N{DASH}"]


@given(st.lists(st.sampled_from(_PIECES)).map(lambda pieces: f"f(a={''.join(pieces)})"))
def test_agrees_with_python_on_all_that_both_read(written: str) -> None:
    read = read_call(written, 0)
    theirs = by_python(written)
    if theirs is not None and isinstance(read, PythonCall) and read.end == len(written):
        assert read.arguments.value == as_json(theirs)


@given(st.text())
def test_never_raises(text: str) -> None:
    assert isinstance(read_call("f(a=" + text, 0), PythonCall | Halt)


@pytest.mark.parametrize("unit", ["[", "{'a':", "(", "'", "'a',", "a=1,", "\\'", '"""', "1_"])
def test_twice_the_text_costs_twice(unit: str) -> None:
    assert doubling(lambda size: read_call("f(a=" + repeated(unit, size), 0), 50_000) < LINEAR
