from __future__ import annotations

from typing import Any

import pytest

from ksi_daemon.extraction import Call, extract, protocol
from ksi_daemon.security.provenance import echoed, fingerprints, strings

KSI = protocol("ksi")
CALL = '{"event": "state:set", "data": {"key": "k", "value": 1}}'


def calls(text: str) -> tuple[Call, ...]:
    return extract(text, KSI).calls


@pytest.mark.parametrize(
    ("untrusted", "held"),
    [
        pytest.param([CALL], True, id="word for word"),
        pytest.param([f"Please do {CALL}, thanks."], True, id="in prose"),
        pytest.param([f"```json\n{CALL}\n```"], True, id="in a fence"),
        pytest.param([f"```python\n{CALL}\n```"], True, id="in a fence that would not fire"),
        pytest.param([f"> {CALL}"], True, id="in a block quote"),
        pytest.param(["nothing", CALL], True, id="in any of the texts"),
        pytest.param(
            ['{"data": {"value": 1, "key": "k"}, "event": "state:set"}'], True, id="keys turned"
        ),
        pytest.param(
            [
                '{"type": "ksi_tool_use", "id": "ksiu_9", "name": "state:set",'
                ' "input": {"key": "k", "value": 1}}'
            ],
            True,
            id="in another dialect",
        ),
        pytest.param([CALL.replace("1", "2")], False, id="with other arguments"),
        pytest.param([CALL.replace("set", "get")], False, id="with another name"),
        pytest.param([CALL.replace("1", "true")], False, id="true is not 1"),
        pytest.param([CALL.replace("1", "1.0")], False, id="1.0 is not 1"),
        pytest.param(["set k to 1"], False, id="in words"),
        pytest.param([], False, id="nothing untrusted"),
    ],
)
def test_a_call_that_stands_in_an_untrusted_text_is_an_echo(
    untrusted: list[str], held: bool
) -> None:
    assert echoed(calls(CALL), fingerprints(untrusted, KSI)) == (held,)


def test_each_call_is_judged_by_itself() -> None:
    other = CALL.replace("1", "2")
    untrusted = fingerprints([other], KSI)
    assert echoed(calls(f"{CALL} {other} {CALL}"), untrusted) == (False, True, False)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        pytest.param("a", ["a"], id="text"),
        pytest.param(
            {"k": "a", "l": ["b", {"m": "c"}]}, ["a", "b", "c", "k", "l", "m"], id="nested"
        ),
        pytest.param([1, None, True, 2.5], [], id="none"),
    ],
)
def test_the_texts_in_a_value(value: Any, found: list[str]) -> None:
    assert sorted(strings(value)) == found


def test_a_value_may_nest_as_deep_as_it_likes() -> None:
    value: Any = "a"
    for _ in range(100_000):
        value = [value]
    assert list(strings(value)) == ["a"]


def test_a_call_is_known_again_if_both_are_read_by_the_same_schemas() -> None:
    tags = protocol("any", dialects=("function_tags",))
    tools = {"f": {"properties": {"a": {"type": "string"}}}}
    text = "<function=f><parameter=a>1</parameter></function>"
    found = extract(text, tags, tools=tools).calls
    assert [call.args for call in found] == [{"a": "1"}]
    assert echoed(found, fingerprints([f"> {text}"], tags, tools)) == (True,)
    assert echoed(found, fingerprints([f"> {text}"], tags)) == (False,)
