from __future__ import annotations

from typing import Any

import pytest

from ksi_client.replaying import Difference, Read, Reply
from ksi_client.text import Paint
from ksi_client.views.replayed import as_json, differing, summed
from ksi_daemon.extraction import protocol

PLAIN = Paint(False)
TEXT = 'So: {"event": "a:b", "data": {}}'
CALL = Read("event", 4, 32, "a:b", {}, ("trailing_comma",))
BROKEN = Read("event", 4, 32, code="odd")
NATIVE = Read("native", 0, 0, "a:b", None)
REPLY = Reply(id="c1", text=TEXT, protocol=protocol("ksi"), seq=7, agent_id="ada", model="m")
KINDS = dict.fromkeys(("gained", "lost", "changed", "repaired", "rejected"), 0)
COUNTS = {"replies": 1, "blocks": 2, "differ": 0, "unreadable": 0, "extractors": [1], **KINDS}
COUNTS["extractor"] = 2


def test_a_difference_in_its_text() -> None:
    lines = list(differing(REPLY, Difference("rejected", CALL, BROKEN), PLAIN, 100))
    assert lines == [
        "newly rejected  #7  ada  m",
        f"> {TEXT}",
        "      " + "^" * 28,
        "- a:b {}  characters 4-32, event, repaired: trailing_comma",
        "+ rejected, odd  characters 4-32, event",
        "",
    ]


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        pytest.param(
            Difference("changed", CALL, CALL, ("name", "args")),
            ["changed: name, args  #7  ada  m"],
            id="what is other",
        ),
        pytest.param(
            Difference("lost", NATIVE, None),
            ["- a:b   characters 0-0, native", "+ nothing"],
            id="native",
        ),
        pytest.param(Difference("gained", None, CALL), ["- nothing"], id="gained"),
    ],
)
def test_what_is_told(found: Difference, lines: list[str]) -> None:
    told = list(differing(REPLY, found, PLAIN, 100))
    assert [line for line in lines if line not in told] == []


def test_what_a_model_wrote_is_made_visible() -> None:
    evil = "\x1b[2J\u202e"
    read = Read("event", 0, 4, evil, {evil: evil}, (evil,))
    reply = Reply(id=evil, text=evil * 3, protocol=protocol("ksi"), agent_id=evil, model=evil)
    for line in differing(
        reply, Difference("changed", read, Read("e", 0, 4, code=evil)), PLAIN, 80
    ):
        assert line.isprintable()


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        pytest.param(
            {}, "1 reply, 2 blocks, extractor 1 then, 2 now: nothing differs", id="nothing"
        ),
        pytest.param(
            {"replies": 12_000, "differ": 3, "gained": 1, "repaired": 2},
            "12,000 replies, 2 blocks, extractor 1 then, 2 now: 3 differ: 1 gained, 0 lost, "
            "0 changed, 2 newly repaired, 0 newly rejected",
            id="something",
        ),
        pytest.param(
            {"extractors": [], "unreadable": 4},
            "1 reply, 2 blocks, extractor - then, 2 now; 4 left out: this ksi has no such preset: "
            "nothing differs",
            id="what cannot be read",
        ),
    ],
)
def test_the_sum(counts: dict[str, Any], sentence: str) -> None:
    assert summed(COUNTS | counts) == sentence


def test_as_json() -> None:
    assert as_json(REPLY, Difference("lost", BROKEN, None)) == {
        "completion_id": "c1",
        "seq": 7,
        "agent_id": "ada",
        "model": "m",
        "extractor": REPLY.extractor,
        "kind": "lost",
        "was": {"dialect": "event", "start": 4, "end": 32, "code": "odd"},
        "now": None,
    }
