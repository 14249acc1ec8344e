from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ksi_daemon.conversation import CallReport, Manner, manner_of
from ksi_daemon.errors import KsiError
from ksi_daemon.events import ErrorInfo
from ksi_daemon.extraction import Call, Rejected
from ksi_daemon.loop import LoopLimits, agreement
from ksi_daemon.providers.model import Capabilities, Completion, Message, Price, Request, Usage
from ksi_daemon.services.completions.blocks import Block, Done
from ksi_daemon.services.completions.progress import Counts, Fault, Progress


def manner(protocol: Any = "ksi") -> Manner:
    return manner_of(agreement(protocol), "", (), Capabilities(), max_calls=9)


def progress(protocol: Any = "ksi", price: Price | None = None, **limits: Any) -> Progress:
    return Progress(LoopLimits(**limits), manner(protocol), price)


def good(name: str = "a:b", dialect: str = "event", **args: Any) -> Done:
    call = Call(name, args, "c1", True, dialect, 0, 0)
    return Done(Block(1, call), CallReport("c1", name, "handled"))


def bad(name: str = "a:b", ordinal: int = 1) -> Done:
    call = Call(name, {}, "c1", True, "event", 0, 0)
    report = CallReport("c1", name, "rejected", error=ErrorInfo("args_schema", "no"))
    return Done(Block(ordinal, call), report)


def broken(ordinal: int = 1) -> Done:
    return Done(Block(ordinal, Rejected("malformed_block", "no", "event", 0, 0, "")))


def completion(text: str = "", **usage: int) -> Completion:
    return Completion(text=text, stop_reason="stop", model="m", usage=Usage(**usage))


REQUEST = Request(messages=(Message("user", "x" * 40),))


def judged(counts: Progress, *turns: list[Done]) -> list[str | None]:
    """Return why it ends after each of *turns*, whose texts differ."""
    ends = []
    for n, done in enumerate(turns, start=1):
        counts.judge(done, f"text {n}", f"id{n}", n)
        ends.append(counts.end())
    return ends


def test_mistakes_in_a_row_are_counted_by_turns() -> None:
    turns = [[bad(), broken()], [bad()], [good(), bad()], [bad()], [bad()], [broken()]]
    assert judged(progress(), *turns) == [None] * 5 + ["consecutive_mistakes"]


def test_of_refused_replies_only_the_retries_count() -> None:
    turns = [[broken()]] * 4
    ends = judged(progress({"mode": "strict"}, mistakes=1), *turns)
    assert ends == [None, None, None, "retry_exhausted"]


def test_a_good_reply_gives_all_retries_back() -> None:
    turns = [[bad()], [good()], [bad()], [bad()]]
    strict = {"mode": "strict", "max_protocol_retries": 1}
    assert judged(progress(strict), *turns) == [None, None, None, "retry_exhausted"]


def test_the_very_same_reply_is_no_progress() -> None:
    counts = progress(identical=2)
    for text, end in (("a", None), ("b", None), ("b", "no_progress")):
        counts.judge([good()], text, "id", 1)
        assert counts.end() == end


def test_native_calls_are_part_of_what_is_the_same() -> None:
    counts = progress(identical=2)
    for x, end in ((1, None), (2, None), (2, "no_progress")):
        counts.judge([good(dialect="native", x=x)], "", "id", 1)
        assert counts.end() == end


def test_a_call_makes_good_the_oldest_fault_of_its_tool() -> None:
    counts = progress()
    assert counts.judge([bad("a:b"), bad("a:c", 2)], "1", "id1", 1) == []
    assert counts.judge([good("a:c")], "2", "id2", 2) == [Fault("id1", 2, 1, "a:c", 1, "id1.2")]
    assert counts.judge([good("a:c")], "3", "id3", 3) == []


def test_tries_of_the_same_are_made_good_together() -> None:
    counts = progress()
    for turn, done in enumerate(([broken()], [bad("a:b")], [broken()]), start=1):
        counts.judge(done, str(turn), f"id{turn}", turn)
    assert counts.tries([good("a:b").block]) == [4]
    mended = counts.judge([good("a:b")], "4", "id4", 4)
    assert [(fault.completion_id, fault.tries) for fault in mended] == [
        ("id1", 1),
        ("id2", 2),
        ("id3", 3),
    ]
    assert counts.tries([good("a:b").block]) == [1]


@pytest.mark.parametrize(
    ("faults", "blocks", "tries"),
    [
        pytest.param([], [good()], [1], id="nothing before"),
        pytest.param([bad("a:b")], [good("a:c")], [1], id="another tool"),
        pytest.param([bad("a:b")], [good("a:b"), good("a:b")], [2, 1], id="one of two"),
        pytest.param([broken()], [good("a:c")], [2], id="of what could not be read"),
        pytest.param([bad("a:b")], [broken()], [2], id="what cannot be read again"),
        pytest.param([bad("a:b")], [broken(1), good("a:b")], [1, 2], id="what can be read first"),
        pytest.param([bad("a:b", 1), broken(2)], [good("a:b"), good("a:d")], [2, 2], id="two"),
    ],
)
def test_which_try_a_block_is(faults: list[Done], blocks: list[Done], tries: list[int]) -> None:
    counts = progress()
    counts.judge(faults, "1", "id1", 1)
    assert counts.tries([each.block for each in blocks]) == tries


@pytest.mark.parametrize(
    ("limits", "usage", "spent"),
    [
        pytest.param({"tokens": 10}, {"input_tokens": 4, "output_tokens": 5}, None, id="within"),
        pytest.param(
            {"tokens": 10},
            {"input_tokens": 4, "output_tokens": 6},
            "10 tokens, the limit is 10",
            id="tokens",
        ),
        pytest.param(
            {"usd": 2.0},
            {"input_tokens": 1_000_000, "output_tokens": 500_000},
            "2.000000 US dollars, the limit is 2",
            id="money",
        ),
        pytest.param({}, {"input_tokens": 10**9}, None, id="no bound"),
    ],
)
def test_budgets(limits: Any, usage: Any, spent: str | None) -> None:
    counts = progress(price=Price(1.0, 2.0), **limits)
    counts.spend(REQUEST, completion(**usage))
    assert counts.spent() == spent
    assert counts.end() == (spent and "halted")


def test_usage_that_is_not_told_is_estimated() -> None:
    counts = progress()
    counts.spend(REQUEST, completion("y" * 9))
    assert counts.counts.tokens == 10 + 3


def test_money_needs_a_price() -> None:
    with pytest.raises(KsiError) as caught:
        progress(usd=1.0)
    assert caught.value.code == "no_price"


@pytest.mark.parametrize(("protocol", "turns"), [("ksi", 25), ({"max_iterations": 3}, 3)])
def test_turns(protocol: Any, turns: int) -> None:
    counts = progress(protocol)
    asked = []
    for counts.counts.turn in (turns - 1, turns):
        asked.append(counts.may_ask())
    assert asked == [True, False]


def test_what_was_counted_goes_on_after_a_crash() -> None:
    before = progress(price=Price(1.0, 2.0), identical=9)
    before.counts.turn = 2
    before.spend(REQUEST, completion(input_tokens=4, output_tokens=6))
    judged(before, [bad()], [bad("c:d"), broken()])
    logged = msgspec.json.encode(before.counts)
    counts = msgspec.json.decode(logged, type=Counts)
    assert counts == before.counts
    after = Progress(LoopLimits(), manner(), Price(1.0, 2.0), counts)
    after.spend(REQUEST, completion(input_tokens=1, output_tokens=1))
    assert (after.counts.tokens, after.counts.usd) == (12, pytest.approx(19e-6))
    # The same reply once more is a repetition, and the third turn of mistakes the last.
    after.judge([broken()], "text 2", "id3", 3)
    assert (after.counts.repeats, after.end()) == (2, "consecutive_mistakes")
    assert [each.completion_id for each in after.judge([good("c:d")], "", "id4", 4)] == ["id2"]
