from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ksi_daemon.errors import InvalidData
from ksi_daemon.log import EventLog
from ksi_daemon.log.metrics import latency_ms, wilson
from ksi_daemon.log.model import GroupKey
from ksi_daemon.log.reliability import _plan, reliability_rows
from tests.random_log import BEGIN, RandomLog, plain_rows

KEYS: tuple[GroupKey, ...] = (
    "agent", "model", "provider", "dialect", "tool", "size", "hour", "day",
)  # fmt: skip


@pytest.mark.parametrize("exact", [False, True], ids=["rolled", "exact"])
@pytest.mark.parametrize(
    "keys",
    [*((key,) for key in KEYS), ("model", "dialect"), ("tool", "agent", "hour"), KEYS],
    ids="+".join,
)
async def test_agrees_with_plain_counting(
    path: Path, keys: tuple[GroupKey, ...], exact: bool
) -> None:
    made = RandomLog(11)
    works = [work for work in made.units(60)]
    since, until = BEGIN + timedelta(minutes=40), BEGIN + timedelta(hours=61)
    async with EventLog.open(path, durability="process") as log:
        await asyncio.gather(*map(log.submit, works))
        for span in ((None, None), (since, until)):
            facts = [
                fact for fact in made.facts
                if span[0] is None or since <= fact["ts"] < until
            ]  # fmt: skip
            found = await log.reader.reliability(keys, *span, exact=exact)
            rows = [row for row in found if row["completions"] or row["seen"]]
            plain = plain_rows(facts, keys)
            assert [_as_plain(row, plain[0]) for row in rows] == plain


def _as_plain(row: dict[str, Any], plain: dict[str, Any]) -> dict[str, Any]:
    tries = [
        {name: each[name] for name in ("corrections", "n", "handled")} for each in row["tries"]
    ]
    return {name: row[name] for name in plain} | {"tries": tries}


async def test_replies_that_never_came(path: Path) -> None:
    made = RandomLog(4)
    async with EventLog.open(path, durability="process") as log:
        for work in made.units(90):
            await log.submit(work)
        for exact in (False, True):
            rows = await log.reader.reliability(["model", "provider"], None, None, exact=exact)
            found = {(row["model"], row["provider"]): row for row in rows}
            codes = [error["code"] for error in made.errors]
            assert len(codes) > 3
            assert found["m", "p"]["errors"] == len(codes)
            assert found["m", "p"]["provider_errors"] == {code: codes.count(code) for code in codes}
            assert found["m", "p"]["faults"]["provider"] >= len(codes)
            assert found["n", "p"]["errors"] == 0


@pytest.mark.parametrize("keys", [[], ["model", "ts"], ["1) --"]], ids=str)
async def test_groups_by_its_own_keys_only(path: Path, keys: Any) -> None:
    async with EventLog.open(path, durability="process") as log:
        with pytest.raises(InvalidData, match="cannot group by"):
            await log.reader.reliability(keys, None, None)


def test_a_row_has_its_fields_in_order() -> None:
    counted = {
        "completions": 3, "latency:100": 2, "latency:200": 1, "input_tokens": 30,
        "output_tokens": 12, "seen": 4, "strict": 2, "rejected": 1, "rejected:malformed_block": 1,
        "held": 1, "echoed": 1, "first": 3, "handled": 1, "handled_first": 1, "corrected": 1,
        "recovered:2": 1, "failed": 1, "failed:handler_failed": 1, "priced": 2, "cost_nusd": 5_000,
    }  # fmt: skip
    [row] = reliability_rows(["model"], {("m",): counted})
    low, high = wilson(1, 3) or (0, 0)
    rate = {"rate": 1 / 3, "low": low, "high": high}
    second = dict(zip(("rate", "low", "high"), (2 / 3, *(wilson(2, 3) or ())), strict=True))
    expected = {
        "model": "m", "completions": 3, "seen": 4, "strict": 2, "repaired": 0, "rejected": 1,
        "invalid": 0, "unknown": 0, "denied": 0, "handled": 1, "failed": 1, "corrected": 1,
        "quoted": 1, **rate, "p50_ms": latency_ms(100), "p95_ms": latency_ms(200),
        "p99_ms": latency_ms(200), "tokens": 42, "input_tokens": 30, "output_tokens": 12,
        "usd": 0.000005, "unpriced": 1, "refused": 0, "interrupted": 0, "errors": 0, "cut_off": 0,
        "echoed": 1, "suspects": 0, "lost": 0, "open": 0,
        "tries": [
            {"corrections": 0, "n": 3, "handled": 1, **rate},
            {"corrections": 1, "n": 3, "handled": 1, **rate},
            {"corrections": 2, "n": 3, "handled": 2, **second},
            {"corrections": 3, "n": 3, "handled": 2, **second},
        ],
        "repairs": {}, "rejections": {"malformed_block": 1}, "failures": {"handler_failed": 1},
        "provider_errors": {},
        "faults": {"model": 1, "parser": 0, "schema": 0, "tool": 1, "provider": 0},
    }  # fmt: skip
    assert list(row.items()) == list(expected.items())


HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US


@pytest.mark.parametrize(
    ("since", "until", "before", "by_hour", "plan"),
    [
        pytest.param(
            3 * HOUR_US, 5 * HOUR_US, 0, False, (10_800, 10_800, 10_800, 18_000, ()), id="hours"
        ),
        pytest.param(
            3 * HOUR_US - 1, 5 * HOUR_US + 1, 0, False,
            (10_800, 10_800, 10_800, 18_000,
             ((3 * HOUR_US - 1, 3 * HOUR_US), (5 * HOUR_US, 5 * HOUR_US + 1))),
            id="and parts of hours",
        ),
        pytest.param(5, 9, 0, False, (0, 0, 0, 0, ((5, 9),)), id="no whole hour"),
        pytest.param(
            23 * HOUR_US, 3 * DAY_US + HOUR_US, 5 * 86_400, False,
            (23 * 3_600, 86_400, 3 * 86_400, 3 * 86_400 + 3_600, ()),
            id="days between hours",
        ),
        pytest.param(
            0, 3 * DAY_US, 86_400, False, (0, 0, 86_400, 3 * 86_400, ()), id="open days: by hours"
        ),
        pytest.param(
            0, 3 * DAY_US, 5 * 86_400, True, (0, 0, 0, 3 * 86_400, ()), id="by hour: no days"
        ),
        pytest.param(
            HOUR_US, 50 * DAY_US + HOUR_US, 100 * 86_400, False,
            (86_400, 86_400, 50 * 86_400, 50 * 86_400,
             ((HOUR_US, DAY_US), (50 * DAY_US, 50 * DAY_US + HOUR_US))),
            id="hours that are forgotten: parts of days are scanned",
        ),
        pytest.param(
            HOUR_US, 90 * DAY_US, 100 * 86_400, True,
            (65 * 86_400, 65 * 86_400, 65 * 86_400, 90 * 86_400, ((HOUR_US, 65 * DAY_US),)),
            id="by hour: what is forgotten is scanned",
        ),
    ],
)  # fmt: skip
def test_how_a_time_is_read(
    since: int, until: int, before: int, by_hour: bool, plan: tuple[Any, ...]
) -> None:
    assert tuple(_plan(since, until, before, by_hour=by_hour)) == plan


@pytest.mark.parametrize(
    ("key", "values", "told"),
    [
        pytest.param("model", ["b", "", "a"], [None, "a", "b"], id="none first"),
        pytest.param("size", [">16k", "<256", "1k-4k"], ["<256", "1k-4k", ">16k"], id="by size"),
        pytest.param(
            "hour",
            [1_769_864_400, 1_769_860_800],
            ["2026-01-31T12:00:00Z", "2026-01-31T13:00:00Z"],
            id="hours",
        ),
        pytest.param("day", [1_769_817_600], ["2026-01-31"], id="days"),
    ],
)
def test_rows_are_sorted(key: str, values: list[Any], told: list[str | None]) -> None:
    rows = reliability_rows([key], {(value,): {} for value in values})
    assert [row[key] for row in rows] == told


@pytest.mark.parametrize(
    ("counted", "rate"),
    [
        pytest.param({"seen": 10, "handled": 8}, 0.8, id="handled of seen"),
        pytest.param({"seen": 10, "handled": 8, "held": 2}, 1.0, id="quotes do not count"),
        pytest.param({"seen": 2, "held": 2}, None, id="nothing but quotes"),
        pytest.param({}, None, id="nothing"),
    ],
)
def test_rate(counted: dict[str, int], rate: float | None) -> None:
    [row] = reliability_rows(["model"], {("m",): counted})
    assert (row["rate"], (row["low"] is None), (row["high"] is None)) == (
        rate,
        rate is None,
        rate is None,
    )
