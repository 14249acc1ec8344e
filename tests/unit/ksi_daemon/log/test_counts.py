from __future__ import annotations

import pytest

from ksi_daemon.log import counts
from ksi_daemon.log.counts import Block, Counts, Reply
from ksi_daemon.log.metrics import latency_bin

REPLY = Reply(2_500, 100, 20, None, "stop")


def block(verdict: str = "strict", code: str | None = None, **fields: object) -> Block:
    given: dict[str, object] = {"repairs": (), "tries": 1, "suspect": False, **fields}
    return Block(verdict, code, **given)  # type: ignore[arg-type]


def owners(found: Counts) -> Counts:
    return counts.faults(found, counts.kinds(found))


def test_a_reply() -> None:
    assert counts.of_reply(REPLY) == {
        "completions": 1,
        "input_tokens": 100,
        "output_tokens": 20,
        f"latency:{latency_bin(2_500)}": 1,
    }


def test_a_reply_that_has_a_price_and_was_cut_off() -> None:
    found = counts.of_reply(Reply(2_500, 100, 20, 7, "length"))
    assert {name: found[name] for name in ("priced", "cost_nusd", "cut_off")} == {
        "priced": 1,
        "cost_nusd": 7,
        "cut_off": 1,
    }


@pytest.mark.parametrize(
    ("made", "stop_reason", "found"),
    [
        pytest.param(block(), "stop", {"seen": 1, "strict": 1, "first": 1}, id="strict"),
        pytest.param(block(tries=2), "stop", {"seen": 1, "strict": 1}, id="a second try"),
        pytest.param(
            block("repaired", repairs=("comment", "trailing_comma", "comment")),
            "stop",
            {"seen": 1, "repaired": 1, "first": 1, "repair:comment": 2, "repair:trailing_comma": 1},
            id="repaired, by kind",
        ),
        pytest.param(
            block("rejected", "malformed_block"),
            "stop",
            {"seen": 1, "rejected": 1, "first": 1, "rejected:malformed_block": 1},
            id="rejected, by code",
        ),
        pytest.param(
            block("rejected", "unterminated_block"),
            "length",
            {
                "seen": 1,
                "rejected": 1,
                "first": 1,
                "rejected:unterminated_block": 1,
                "rejected_cut_off": 1,
            },
            id="rejected, for the reply was cut off",
        ),
        pytest.param(block("held", "echo"), "stop", {"seen": 1, "held": 1, "echoed": 1}, id="echo"),
        pytest.param(block("held", "quoted"), "stop", {"seen": 1, "held": 1}, id="quoted"),
        pytest.param(
            block(suspect=True),
            None,
            {"seen": 1, "strict": 1, "first": 1, "suspect": 1},
            id="suspect",
        ),
    ],
)
def test_a_block(made: Block, stop_reason: str | None, found: Counts) -> None:
    assert counts.of_block(made, stop_reason) == found


@pytest.mark.parametrize(
    ("status", "code", "tries", "found"),
    [
        pytest.param("handled", None, 1, {"handled": 1, "handled_first": 1}, id="handled"),
        pytest.param("handled", None, 2, {"handled": 1}, id="handled, after a correction"),
        pytest.param("failed", "boom", 1, {"failed": 1, "failed:boom": 1}, id="failed"),
        pytest.param("timeout", "slow", 1, {"failed": 1, "failed:slow": 1}, id="timeout"),
        pytest.param("denied", None, 1, {"denied": 1, "denied:denied": 1}, id="without a code"),
        pytest.param(
            "rejected",
            "args_schema",
            1,
            {"refused": 1, "refused:args_schema": 1, "invalid": 1},
            id="invalid",
        ),
        pytest.param(
            "rejected", "odd", 1, {"refused": 1, "refused:odd": 1}, id="refused by its handler"
        ),
        pytest.param("lost", "lost", 1, {"interrupted": 1, "interrupted:lost": 1}, id="lost"),
    ],
)
def test_an_end(status: str, code: str | None, tries: int, found: Counts) -> None:
    assert counts.of_end(status, code, tries) == found


@pytest.mark.parametrize(
    ("turns", "tries", "found"),
    [
        (1, 1, {"corrected": 1, "recovered:1": 1}),
        (9, 1, {"corrected": 1, "recovered:4": 1}),
        (2, 2, {"corrected": 1}),
    ],
)
def test_a_correction(turns: int, tries: int, found: Counts) -> None:
    assert counts.of_correction(turns, tries) == found


def test_kinds() -> None:
    found = {"rejected": 3, "rejected:a": 2, "rejected:b": 1, "rejected_cut_off": 1, "failed:a": 1}
    assert counts.kinds(found) == {"rejected": {"a": 2, "b": 1}, "failed": {"a": 1}}


@pytest.mark.parametrize(
    ("found", "owner"),
    [
        pytest.param({"rejected": 1, "rejected:malformed_block": 1}, "model", id="cannot be read"),
        pytest.param(
            {"rejected": 1, "rejected:unterminated_block": 1, "rejected_cut_off": 1},
            "provider",
            id="cut off",
        ),
        pytest.param({"rejected": 1, "rejected:size_limit": 1}, "parser", id="our limit"),
        pytest.param({"rejected": 1, "rejected:legacy_complex": 1}, "parser", id="our rule"),
        pytest.param({"rejected": 1, "rejected:args_type": 1}, "schema", id="no object"),
        pytest.param(counts.of_end("rejected", "args_schema", 1), "schema", id="does not fit"),
        pytest.param(counts.of_end("rejected", "component_invalid", 1), "tool", id="refused"),
        pytest.param(counts.of_end("failed", "handler_failed", 1), "tool", id="failed"),
        pytest.param(counts.of_end("lost", "lost", 1), "tool", id="interrupted"),
        pytest.param(counts.of_end("failed", "provider_timeout", 1), "provider", id="its model"),
        pytest.param(counts.of_end("unknown", "unknown_event", 1), "model", id="unknown"),
        pytest.param(counts.of_end("denied", "denied", 1), "model", id="denied"),
        pytest.param({"errors": 1}, "provider", id="no reply"),
        pytest.param({"missed": 1}, "parser", id="lost"),
    ],
)
def test_whose_fault_it_is(found: Counts, owner: str) -> None:
    assert {name: number for name, number in owners(found).items() if number} == {owner: 1}


def test_nobodys_fault() -> None:
    assert list(owners({"handled": 3})) == ["model", "parser", "schema", "tool", "provider"]
    assert set(owners({"handled": 3, "seen": 3}).values()) == {0}
