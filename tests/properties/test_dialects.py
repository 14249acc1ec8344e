"""What holds for every dialect and under every preset (CONFORMANCE.md section 4.5)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.extraction import PRESETS, extract, protocol
from ksi_daemon.extraction.dialects import DIALECTS, ObjectDialect
from tests.properties.written import (
    NAMES,
    SOME,
    Written,
    arguments,
    brace_prose,
    calls_of,
    lenient,
    lined_up,
    prose,
    rendered,
    written,
)

ANY = protocol("any")
IN_A_LINE = sorted(name for name, each in DIALECTS.items() if isinstance(each, ObjectDialect))
READ_BY = [
    pytest.param(f"preset {preset.name}", dialect, id=f"{preset.name} reads {dialect}")
    for preset in PRESETS.values()
    for dialect in preset.dialects
] + [pytest.param(dialect, dialect, id=f"{dialect} alone") for dialect in DIALECTS]
names = st.sampled_from(NAMES)


@pytest.mark.parametrize(("reader", "dialect"), READ_BY)
@SOME
@given(before=prose, name=names, args=arguments, after=prose)
def test_reads_what_it_writes(
    reader: str, dialect: str, before: str, name: str, args: dict[str, object], after: str
) -> None:
    call = rendered(dialect, name, args)
    text = lined_up(before, call.text, after)
    result = extract(text, lenient(reader))
    assert (calls_of(result), result.rejected) == ([call.meant], ())
    assert result.residual.split() == (before + "\n" + after).split()


@pytest.mark.parametrize("dialect", IN_A_LINE)
@SOME
@given(before=prose, name=names, args=arguments, after=prose)
def test_an_object_may_stand_in_a_line(
    dialect: str, before: str, name: str, args: dict[str, object], after: str
) -> None:
    call = rendered(dialect, name, args)
    result = extract(before + call.text + after, lenient(dialect))
    assert calls_of(result) == [call.meant]
    assert result.residual == before + after


@pytest.mark.parametrize("dialect", DIALECTS)
@SOME
@given(before=brace_prose, name=names, args=arguments)
def test_a_stray_brace_or_quote_hides_nothing(
    dialect: str, before: str, name: str, args: dict[str, object]
) -> None:
    call = rendered(dialect, name, args)
    assert calls_of(extract(lined_up(before, call.text), lenient(dialect))) == [call.meant]


@pytest.mark.parametrize("dialect", DIALECTS)
@SOME
@given(name=names, args=arguments)
def test_a_whole_call_is_a_strict_call(dialect: str, name: str, args: dict[str, object]) -> None:
    call = rendered(dialect, name, args)
    strict = protocol("any", dialects=(dialect,), mode="strict")
    assert calls_of(extract(call.text, strict)) == [call.meant]


@SOME
@given(st.lists(written(PRESETS["any"].dialects), max_size=6))
def test_order_is_kept_across_dialects(calls: list[Written]) -> None:
    text = lined_up(*(call.text for call in calls))
    assert calls_of(extract(text, ANY)) == [call.meant for call in calls]


@pytest.mark.parametrize("dialect", DIALECTS)
@SOME
@given(inner=st.lists(written(), min_size=1, max_size=2), wrap=st.sampled_from(["", "\n", "```\n"]))
def test_a_call_in_the_text_of_a_call_is_text(
    dialect: str, inner: list[Written], wrap: str
) -> None:
    content = wrap + lined_up(*(call.text for call in inner)) + wrap
    call = rendered(dialect, "notes:save", {"content": content, "copies": [content]})
    for reader in (dialect, "preset any"):
        if dialect in lenient(reader).dialects:
            result = extract(call.text, lenient(reader))
            assert (calls_of(result), result.rejected) == ([call.meant], ())


@pytest.mark.parametrize("dialect", DIALECTS)
@SOME
@given(call=written())
def test_a_call_in_the_data_of_a_call_is_data(dialect: str, call: Written) -> None:
    data = json.loads(DIALECTS["event"].write(call.name, call.args, ""))
    outer = rendered(dialect, "notes:save", {"data": data, "list": [data]})
    assert calls_of(extract(outer.text, lenient(dialect))) == [outer.meant]
