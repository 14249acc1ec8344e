"""Arguments as JSON, in every dialect that writes them so: the standard library is the oracle."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.extraction import Call, extract, protocol
from ksi_daemon.extraction.dialects import DIALECTS
from tests.differential.json_texts import ACCEPT, DECIDED, REJECT
from tests.properties.written import SOME, calls_of, prose

SENTINEL: Final = '"sentinel"'
# A call in each dialect that writes its arguments as JSON, with a place for one value.
CALLS: Final = {
    name: text
    for name, dialect in DIALECTS.items()
    if f'{{"v": {SENTINEL}}}' in (text := dialect.write("a:b", {"v": "sentinel"}, "ksiu_1"))
}
READERS: Final = pytest.mark.parametrize(
    ("dialect", "settings"),
    [
        pytest.param(dialect, settings, id=f"{dialect} {name}")
        for dialect in CALLS
        for name, settings in (("plain", {"repair": "off"}), ("strict", {"mode": "strict"}))
    ],
)
GOOD: Final = {"v": "the next call"}

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
written = st.builds(
    json.dumps,
    values,
    ensure_ascii=st.booleans(),
    indent=st.sampled_from([None, 1, "\t"]),
    separators=st.sampled_from([(",", ":"), (" , ", " : ")]),
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """JSON with one place where something was taken out or put in."""
    text = draw(written)
    at = draw(st.integers(0, len(text)))
    taken = draw(st.integers(0, 3))
    put = draw(st.sampled_from(["", *'{}[]",:\\', "'", "0", "-", "\n", " ", "e", ".", '","', '":']))
    return text[:at] + put + text[at + taken :]


def oracle(value: str) -> Any:
    """Return what the standard library reads in the arguments; ValueError if it does not."""
    return json.loads(f'{{"v": {value}}}')


def read(dialect: str, value: str, **settings: str) -> tuple[list[Call], list[Call], list[str]]:
    """Read a call with *value* in it, prose around it and a good call behind it.

    Return the calls with the value, the good ones, and the codes of what was rejected.
    """
    chosen = protocol("any", dialects=(dialect,), **settings)
    text = CALLS[dialect].replace(SENTINEL, value)
    if not chosen.whole:
        good = DIALECTS[dialect].write("a:next", GOOD, "ksiu_2")
        text = f"I'll call it now.\n\n{text}\n\nAnd then:\n\n{good}\nDone.\n"
    found = extract(text, chosen)
    calls = [call for call in found.calls if call.name == "a:b"]
    others = [call for call in found.calls if call.name != "a:b"]
    return calls, others, [block.code for block in found.rejected]


def test_most_dialects_write_json() -> None:
    assert set(CALLS) >= {"event", "ksi_tool_use", "prompt_json", "text_tagged", "headed"}
    assert len(ACCEPT) + len(REJECT) + len(DECIDED) >= 200


@READERS
def test_accepts(dialect: str, settings: dict[str, str]) -> None:
    wrong = {}
    for name, value in ACCEPT.items():
        if dialect == "command" and "mode" in settings and "\n" in value:
            continue  # strict wants its arguments on one line
        calls, _, codes = read(dialect, value, **settings)
        if ([call.args for call in calls], codes) != ([oracle(value)], []):
            wrong[name] = calls, codes
    assert wrong == {}


@READERS
def test_rejects(dialect: str, settings: dict[str, str]) -> None:
    wrong = {}
    for name, value in REJECT.items():
        calls, others, codes = read(dialect, value, **settings)
        if calls or len(codes) != 1 or any(call.args != GOOD for call in others):
            wrong[name] = calls, others, codes
    assert wrong == {}


@pytest.mark.parametrize("value", REJECT.values(), ids=REJECT)
def test_the_standard_library_rejects_it_too(value: str) -> None:
    with pytest.raises(ValueError, match="line"):
        oracle(value)


@pytest.mark.parametrize("repair", ["on", "off"])
@pytest.mark.parametrize("dialect", CALLS)
def test_refuses_what_cannot_be_stored(dialect: str, repair: str) -> None:
    wrong = {}
    for name, value in DECIDED.items():
        calls, others, codes = read(dialect, value, repair=repair)
        if calls or len(codes) != 1 or [call.args for call in others] != [GOOD]:
            wrong[name] = calls, others, codes
    assert wrong == {}


@pytest.mark.parametrize("dialect", CALLS)
def test_what_is_mended_says_so(dialect: str) -> None:
    wrong = {}
    for name, value in REJECT.items():
        calls, _, codes = read(dialect, value)
        if len(calls) + len(codes) != 1 or any(not call.repairs for call in calls):
            wrong[name] = calls, codes
    assert wrong == {}


@pytest.mark.parametrize("dialect", CALLS)
@SOME
@given(before=prose, value=written, after=prose)
def test_reads_any_json(dialect: str, before: str, value: str, after: str) -> None:
    call = CALLS[dialect].replace(SENTINEL, value)
    result = extract(f"{before}\n{call}\n{after}", protocol("any", dialects=(dialect,)))
    assert calls_of(result) == [("a:b", oracle(value))]
    assert [call.repairs for call in result.calls] == [()]


@pytest.mark.parametrize("dialect", CALLS)
@SOME
@given(value=damaged())
def test_agrees_about_damaged_json(dialect: str, value: str) -> None:
    calls, _, _ = read(dialect, value, repair="off")
    try:
        # What ends early may be a call with other text behind it.
        expected, _ = json.JSONDecoder().raw_decode(f'{{"v": {value}}}')
    except ValueError:
        assert calls == []
    else:
        assert [call.args for call in calls] in ([], [expected])
    if _is_json(value):
        assert [call.args for call in calls] == [oracle(value)]


def _is_json(value: str) -> bool:
    try:
        oracle(value)
    except ValueError:
        return False
    return True
