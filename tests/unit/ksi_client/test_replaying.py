from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_client.replaying import Difference, Read, Reply, Tally, differences, found_in, reads_of
from ksi_daemon.extraction import PRESETS, protocol

CALL = Read("event", 4, 40, "a:b", {"k": 1})
MENDED = Read("event", 4, 40, "a:b", {"k": 1}, ("trailing_comma",))
BROKEN = Read("event", 4, 40, code="malformed_block")
LATER = Read("event", 50, 60, "a:c", {})
NATIVE = Read("native", 0, 0, "a:b", {})


def other(read: Read, **fields: Any) -> Read:
    given = {name: getattr(read, name) for name in read.__struct_fields__}
    return Read(**given | fields)


@pytest.mark.parametrize(
    ("was", "now", "kinds", "what"),
    [
        pytest.param([], [], [], [], id="nothing and nothing"),
        pytest.param([CALL, LATER], [CALL, LATER], [], [], id="the same"),
        pytest.param([CALL], [CALL, LATER], ["gained"], [()], id="one more"),
        pytest.param([CALL, LATER], [LATER], ["lost"], [()], id="one less"),
        pytest.param([BROKEN], [], ["lost"], [()], id="a rejected block less"),
        pytest.param([CALL], [other(CALL, name="a:z")], ["changed"], [("name",)], id="the name"),
        pytest.param([CALL], [other(CALL, args={"k": 2})], ["changed"], [("args",)], id="a value"),
        pytest.param([CALL], [other(CALL, args={})], ["changed"], [("args",)], id="a key less"),
        pytest.param([CALL], [other(CALL, end=41)], ["changed"], [("span",)], id="its place"),
        pytest.param([CALL], [MENDED], ["repaired"], [("repairs",)], id="mended, and was not"),
        pytest.param([MENDED], [CALL], ["changed"], [("repairs",)], id="not mended, and was"),
        pytest.param([BROKEN], [MENDED], ["repaired"], [()], id="mended, and was rejected"),
        pytest.param([CALL], [BROKEN], ["rejected"], [()], id="rejected, and was a call"),
        pytest.param([], [BROKEN], ["rejected"], [()], id="rejected, and was nothing"),
        pytest.param(
            [BROKEN], [other(BROKEN, code="unterminated")], ["changed"], [("code",)], id="the code"
        ),
        pytest.param(
            [CALL, LATER],
            [other(CALL, start=0, end=60)],
            ["changed", "lost"],
            [("span",), ()],
            id="one in place of two",
        ),
        pytest.param([NATIVE], [CALL], ["lost", "gained"], [(), ()], id="native and text"),
        pytest.param([other(CALL, args=None)], [CALL], [], [], id="arguments that were not logged"),
        pytest.param(
            [other(CALL, args={"k": 1, "agent_id": "ada"})], [CALL], [], [], id="who sent it"
        ),
        pytest.param(
            [CALL], [other(CALL, args={"k": 1, "_x": 2})], [], [], id="what the daemon dropped"
        ),
        pytest.param(
            [CALL],
            [other(CALL, args={"k": 1, "agent_id": "ada"})],
            ["changed"],
            [("args",)],
            id="a key more that was not sent",
        ),
    ],
)
def test_what_differs(
    was: list[Read], now: list[Read], kinds: list[str], what: list[tuple[str, ...]]
) -> None:
    found = differences(was, now)
    assert [each.kind for each in found] == kinds
    assert [each.what for each in found] == what


reads = st.lists(
    st.builds(
        Read,
        st.sampled_from(["event", "native"]),
        st.integers(0, 9),
        st.integers(9, 12),
        st.sampled_from(["a:b", "a:c"]),
        st.just({}),
    ),
    max_size=6,
)


@given(reads, reads)
def test_each_block_has_one_counterpart_or_none(was: list[Read], now: list[Read]) -> None:
    found = differences(was, now)
    assert differences(was, was) == []
    assert sum(each.was is not None for each in found) <= len(was)
    assert sum(each.now is not None for each in found) <= len(now)
    alone = sum(1 if each.was is None else -1 for each in found if None in (each.was, each.now))
    assert alone == len(now) - len(was)


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_a_reply_is_read_as_the_loop_reads_it(preset: str) -> None:
    text = 'So: {"event": "a:b", "data": {"k": 1}} and {"event": "a:c", "data": {"k" 1}}'
    reply = Reply(id="1", text=text, protocol=protocol(preset), stop_reason="stop")
    found = reads_of(found_in(reply))
    assert found == reads_of(found_in(reply))
    if preset == "ksi":
        assert [(each.name, each.code, text[each.start : each.end][:14]) for each in found] == [
            ("a:b", None, '{"event": "a:b'),
            (None, "malformed_block", '{"event": "a:c'),
        ]


def test_the_counts() -> None:
    tally = Tally()
    reply = Reply(id="1", text="", protocol=protocol("ksi"), extractor=1, reads=(CALL, LATER))
    tally.add(reply, [Difference("lost", CALL, None)])
    tally.add(reply, [])
    told = tally.summary()
    assert (told["replies"], told["blocks"], told["differ"], told["lost"]) == (2, 4, 1, 1)
    assert (told["gained"], told["extractors"]) == (0, [1])
