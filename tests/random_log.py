"""Logs of made-up replies, and what a plain count says of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import msgspec

from ksi_daemon.events import CallRef, ErrorInfo, Event, Outcome
from ksi_daemon.log import statements
from ksi_daemon.log.metrics import wilson
from ksi_daemon.log.model import Attempt
from ksi_daemon.work import Ended, Work

__all__ = ["BEGIN", "RandomLog", "plain_rows"]

BEGIN = datetime(2026, 1, 30, 21, 17, tzinfo=UTC)
# Some 80 hours: days that are over, days that are not, hours on both sides.
MINUTES = 80 * 60
ENDS = (
    Outcome("handled", msgspec.Raw(b"1")),
    Outcome("handled"),
    Outcome("failed", error=ErrorInfo("handler_failed", "it broke")),
    Outcome("failed", error=ErrorInfo("provider_timeout", "late")),
    Outcome("timeout", error=ErrorInfo("handler_timeout", "late")),
    Outcome("denied", error=ErrorInfo("denied", "no")),
    Outcome("unknown", error=ErrorInfo("unknown_event", "what")),
    Outcome("rejected", error=ErrorInfo("args_schema", "wrong")),
    Outcome("rejected", error=ErrorInfo("component_invalid", "wrong")),
    Outcome("lost", error=ErrorInfo("lost", "the daemon died")),
)


class RandomLog:
    """Units of a random log. ``facts`` has one entry for each block, or for a silent reply."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.facts: list[dict[str, Any]] = []
        self.errors: list[dict[str, Any]] = []
        self._numbers = count(1)
        self._seq = 0
        self._running: list[tuple[int, dict[str, Any]]] = []

    def units(self, length: int) -> Iterator[Work]:
        """Yield the units in the order in which they are to be committed."""
        for _ in range(length):
            yield from self._reply()
            yield from self._late()
            if not self.chance.randrange(12):
                yield self._failure()
        yield from self._late(everything=True)

    def _reply(self) -> Iterator[Work]:
        chance, name = self.chance, f"c{next(self._numbers)}"
        about = {
            "agent_id": chance.choice([None, "ann", "bob"]),
            "model": chance.choice("mn"),
            "provider": chance.choice("pq"),
        }
        reply = {
            "completion_id": name,
            "ts": BEGIN + timedelta(minutes=chance.randrange(MINUTES)),
            "latency_ms": float(chance.randrange(1, 90_000)),
            "input_tokens": chance.randrange(500),
            "output_tokens": chance.randrange(50),
            "stop_reason": chance.choice(["stop", "stop", "tool_calls", "length", None]),
            "usd": chance.choice([None, 0.25]),
        }
        silent = {**about, **reply, "dialect": None, "tool": None, "verdict": None, "size": None}
        blocks = [self._block({**about, **reply}, n) for n in range(1, chance.randrange(5))]
        self.facts += blocks or [silent]
        yield Work(
            event=_event(name, "completion:result", completion_id=name, status="handled"),
            statements=(
                statements.completion(
                    request_id=None, turn=1, preset="ksi", extractor=1, **about, **reply
                ),
                *(statements.attempt(_attempt(block)) for block in blocks),
            ),
        )
        self._seq += 1
        yield from (work for block in blocks for work in self._run(block))
        if chance.randrange(8):
            for block in blocks:
                block["done"] = True
            yield Work(statements=(statements.completion_done(name),))

    def _block(self, of: dict[str, Any], ordinal: int) -> dict[str, Any]:
        chance = self.chance
        verdict = chance.choice(["strict", "strict", "repaired", "rejected", "held"])
        codes = {
            "rejected": ["malformed_block", "unterminated_block", "args_type", "size_limit"],
            "held": ["echo", "quoted"],
        }
        repairs = ["trailing_comma", "comment", "trailing_comma"][: chance.randrange(1, 4)]
        return {
            **of,
            "ordinal": ordinal,
            "dialect": chance.choice(["event", "ksi_body", "native"]),
            "tool": chance.choice([None, "a:b", "a:c"]),
            "verdict": verdict,
            "code": chance.choice(codes[verdict]) if verdict in codes else None,
            "repairs": tuple(repairs) if verdict == "repaired" else (),
            "size": chance.choice([0, 255, 256, 1_023, 5_000, 99_999]),
            "tries": chance.choice([1, 1, 1, 2, 3, 9]),
            "suspect": not chance.randrange(9),
            "corrected": 0,
            "done": False,
            "end": None,
        }

    def _run(self, block: dict[str, Any]) -> Iterator[Work]:
        """Yield the event of a block: with its end, without, or none at all."""
        fires = block["verdict"] in ("strict", "repaired")
        fate = self.chance.randrange(10)
        if fires and fate == 0:
            return
        end = self.chance.choice(ENDS) if fires else Outcome("rejected")
        name = f"{block['completion_id']}.{block['ordinal']}"
        later = fires and fate < 4
        event = _event(
            name,
            "a:b",
            completion_id=block["completion_id"],
            call=CallRef(name, block["dialect"], 0, 9),
            status="received",
        )
        self._seq += 1
        block["logged"] = True
        if later:
            self._running.append((self._seq, block))
            yield Work(event=event)
            return
        if fires:
            block["end"] = end
        event.status = end.status
        yield Work(event=event, outcome=end)

    def _late(self, *, everything: bool = False) -> Iterator[Work]:
        """Yield ends of events that came before, and corrections of blocks."""
        while self._running and (everything or not self.chance.randrange(3)):
            seq, block = self._running.pop(0)
            if everything and not self.chance.randrange(4):
                continue
            block["end"] = self.chance.choice(ENDS)
            yield Work(ended=Ended(seq, block["end"]))
        faulty = [block for block in self.facts if block["verdict"] == "rejected"]
        if faulty and not self.chance.randrange(2):
            block, turns = self.chance.choice(faulty), self.chance.randrange(1, 7)
            block["corrected"] = block["corrected"] or turns
            row = statements.attempt_corrected(block["completion_id"], block["ordinal"], turns)
            yield Work(statements=(row,))

    def _failure(self) -> Work:
        name = f"f{next(self._numbers)}"
        error = {
            "agent_id": self.chance.choice([None, "ann"]),
            "model": "m",
            "provider": "p",
            "ts": BEGIN + timedelta(minutes=self.chance.randrange(MINUTES)),
            "code": self.chance.choice(["provider_timeout", "provider_auth"]),
        }
        self.errors.append(error)
        self._seq += 1
        return Work(
            event=_event(name, "completion:error", status="failed"),
            statements=(statements.completion_failed(event_id=name, **error),),
        )


def plain_rows(facts: Sequence[dict[str, Any]], keys: Sequence[str]) -> list[dict[str, Any]]:
    """Count *facts* the plain way; return the main fields of a report's rows, but percentiles."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for fact in facts:
        groups.setdefault(tuple(_key(fact, key) for key in keys), []).append(fact)
    rows = [
        dict(zip(keys, values, strict=True)) | _figures(members)
        for values, members in groups.items()
    ]
    return sorted(rows, key=lambda row: [(row[key] is not None, _rank(row[key])) for key in keys])


SIZES = ["<256", "256-1k", "1k-4k", "4k-16k", ">16k"]


def _key(fact: dict[str, Any], key: str) -> str | None:
    match key:
        case "agent":
            return fact["agent_id"]  # type: ignore[no-any-return]
        case "hour":
            return f"{fact['ts']:%Y-%m-%dT%H}:00:00Z"
        case "day":
            return f"{fact['ts']:%Y-%m-%d}"
        case "size":
            ends = (256, 1_024, 4_096, 16_384, 10**9)
            size = fact["size"]
            return None if size is None else SIZES[sum(size >= end for end in ends)]
    return fact[key]  # type: ignore[no-any-return]


def _rank(value: str) -> tuple[int, str]:
    return (SIZES.index(value) if value in SIZES else 0, value)


def _figures(members: list[dict[str, Any]]) -> dict[str, Any]:
    blocks = [fact for fact in members if fact["verdict"]]
    verdicts = Counter(fact["verdict"] for fact in blocks)
    ended = [fact for fact in blocks if fact["end"] is not None]
    ends = Counter(fact["end"].status for fact in ended)
    codes = Counter(fact["end"].error.code for fact in ended if fact["end"].error)
    replies = {fact["completion_id"]: fact for fact in members}.values()
    meant = [fact for fact in blocks if fact["verdict"] != "held"]
    first = [fact for fact in meant if fact["tries"] == 1]
    fired = verdicts["strict"] + verdicts["repaired"]
    low, high = wilson(ends["handled"], len(meant)) or (None, None)
    priced = [fact["usd"] for fact in replies if fact["usd"] is not None]
    return {
        "completions": len(replies),
        "seen": len(blocks),
        "strict": verdicts["strict"],
        "repaired": verdicts["repaired"],
        "rejected": verdicts["rejected"],
        "invalid": codes["args_schema"],
        "unknown": ends["unknown"],
        "denied": ends["denied"],
        "handled": ends["handled"],
        "failed": ends["failed"] + ends["timeout"],
        "corrected": sum(fact["corrected"] > 0 for fact in blocks),
        "quoted": verdicts["held"],
        "rate": ends["handled"] / len(meant) if meant else None,
        "low": low,
        "high": high,
        "tokens": sum(fact["input_tokens"] + fact["output_tokens"] for fact in replies),
        "usd": sum(priced) if priced else None,
        "unpriced": len(replies) - len(priced),
        "refused": ends["rejected"],
        "interrupted": ends["lost"],
        "cut_off": sum(fact["stop_reason"] in ("length", None) for fact in replies),
        "echoed": sum(fact["code"] == "echo" for fact in blocks),
        "suspects": sum(fact["suspect"] for fact in blocks),
        "open": fired - len(ended),
        "lost": sum(
            fact["done"] and not fact.get("logged") and fact["verdict"] in ("strict", "repaired")
            for fact in blocks
        ),
        "tries": [
            {"corrections": k, "n": len(first), "handled": _good(first, k)} for k in range(4)
        ],
        "repairs": dict(Counter(kind for fact in blocks for kind in fact["repairs"])),
        "rejections": dict(
            Counter(fact["code"] for fact in blocks if fact["verdict"] == "rejected")
        ),
    }


def _good(first: list[dict[str, Any]], corrections: int) -> int:
    return sum(
        (fact["end"] is not None and fact["end"].status == "handled")
        or 0 < fact["corrected"] <= corrections
        for fact in first
    )


def _event(name: str, event: str, **fields: Any) -> Event:
    return Event(
        id=name,
        name=event,
        ts=BEGIN,
        data=msgspec.Raw(b"{}"),
        source="daemon",
        correlation_id="story",
        **fields,
    )


def _attempt(block: dict[str, Any]) -> Attempt:
    names = ("completion_id", "ordinal", "agent_id", "provider", "model", "dialect", "tool")
    more = ("verdict", "code", "repairs", "size", "tries", "suspect")
    return Attempt(
        start=0,
        end=9,
        event_id=f"{block['completion_id']}.{block['ordinal']}",
        **{name: block[name] for name in (*names, *more)},
    )
