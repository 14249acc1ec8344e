from __future__ import annotations

from ksi_client.text import Paint
from ksi_client.views.extracted import extracted
from ksi_daemon.extraction import Call, Extraction, Rejected

TEXT = 'So:\n{"event": "a:b", "data": {"x": 1,}}\nand {"event": "a:c"'


def lines(found: Extraction) -> list[str]:
    return list(extracted(TEXT, found, Paint(False), 80))


def test_blocks_are_shown_where_they_stand() -> None:
    call = Call("a:b", {"x": 1}, "k1", True, "event", 4, 39, ("trailing_comma",))
    rejected = Rejected("unterminated", "no end\x1b", "event", 44, 59, "")
    assert lines(Extraction("", (call,), (rejected,))) == [
        "✓ a:b  characters 4-39, event, repaired: trailing_comma",
        "  So:",
        '> {"event": "a:b", "data": {"x": 1,}}',
        '  and {"event": "a:c"',
        '  = {"x":1}',
        "",
        r"✗ unterminated: no end\e  characters 44-59, event",
        "  So:",
        '  {"event": "a:b", "data": {"x": 1,}}',
        '> and {"event": "a:c"',
        "      ^^^^^^^^^^^^^^^",
        "",
        "1 call, 1 rejected",
    ]


def test_prose_holds_nothing() -> None:
    assert lines(Extraction(TEXT)) == ["0 calls, 0 rejected"]


def test_the_final_answer_and_the_thought() -> None:
    found = Extraction("", final={"status": "ok"}, thought="done\x1b")
    assert lines(found) == [r"thought  done\e", 'final  {"status":"ok"}', "0 calls, 0 rejected"]
