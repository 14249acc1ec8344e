"""Which way of writing calls fits a model, as far as the log can tell. Pure.

A call is as good as its writing if it could be read and its arguments fit: what a tool did then, or
whether the agent was allowed to, says nothing of the way it was written. One way is better than
another if their 95 % intervals do not meet. As long as they do, neither is recommended, and it is
said about how many more calls it would take to tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, Literal

import msgspec

from ksi_daemon.log.metrics import trials_to_tell, wilson

__all__ = ["Contender", "Recommendation", "best_protocol", "protocol_for", "recommendations"]

Verdict = Literal["clear", "open", "single", "unknown"]

_PRESETS: Final = {
    "native": "native_auto",
    "prompt_json": "prompt_tools",
    "text_tagged": "text_tagged",
    "json_action": "json_action",
    "command": "command",
    "event": "ksi",
    "ksi_tool_use": "ksi",
    "ksi_body": "ksi",
}
_HABITS: Final = "any"


class Contender(msgspec.Struct, frozen=True):
    """How a model did in one dialect: of *n* blocks that were meant as calls, *good* could be read
    and fitted. *low* and *high* bound the rate."""

    dialect: str
    n: int
    good: int
    rate: float
    low: float
    high: float


class Recommendation(msgspec.Struct, frozen=True):
    """What the log says about one model.

    *verdict*: ``clear`` (*dialect* is better than all others), ``open`` (it cannot be told from
    others yet; *more_calls* is about how many more of each would tell, None if they do the same),
    ``single`` (there is but one), ``unknown`` (no calls). *avoid* are dialects that are worse
    than the best one in any case. *protocol* is what a spawn takes for it, where it is clear.
    """

    model: str
    verdict: Verdict
    dialect: str | None
    protocol: str | dict[str, Any] | None
    more_calls: int | None
    avoid: tuple[str, ...]
    contenders: tuple[Contender, ...]


def recommendations(rows: Iterable[Mapping[str, Any]]) -> list[Recommendation]:
    """Return what is recommended for each model, by the rows of a report by model and dialect."""
    ordered = sorted(rows, key=lambda row: row["model"] or "")
    return [
        _recommended(str(model), _contenders(of_model))
        for model, of_model in groupby(ordered, key=lambda row: row["model"] or "")
    ]


def best_protocol(
    found: Iterable[Recommendation], model: str
) -> tuple[str | dict[str, Any] | None, str]:
    """Return the protocol that fits *model* best, None if none is known to, and a word on why.

    Vendors call a model by a longer name than it is asked for by, ``gpt-5`` ``gpt-5-2026-01-31``:
    what is known of that one counts where nothing is of the very name.
    """
    of_model = [each for each in found if each.model == model or each.model.startswith(f"{model}-")]
    if not of_model:
        return None, f"{model} has made no call yet"
    each = max(of_model, key=lambda each: (each.model == model, _calls(each)))
    if each.verdict == "clear":
        told = f"{each.dialect} fits {model} best, by {_calls(each)} calls"
        return each.protocol, told
    if each.verdict == "open":
        return None, f"no way of writing is known to be the best for {model} yet"
    return None, f"{model} has not tried two ways of writing yet"


def _calls(each: Recommendation) -> int:
    return sum(contender.n for contender in each.contenders)


def protocol_for(dialect: str, avoid: Sequence[str]) -> str | dict[str, Any]:
    """Return the protocol in which an agent writes *dialect* and does without those in *avoid*.

    What it is to avoid is refused with a correction: a form that is not read would be lost.
    """
    preset = _PRESETS.get(dialect, _HABITS)
    if preset == "ksi" and dialect != "event" and "event" in avoid:
        return {"preset": preset, "legacy_event": "reject"}
    return preset


def _contenders(rows: Iterable[Mapping[str, Any]]) -> list[Contender]:
    found = []
    for row in rows:
        n = row["seen"] - row["quoted"]
        good = row["strict"] + row["repaired"] - row["invalid"]
        interval = wilson(good, n)
        if row["dialect"] and interval:
            found.append(Contender(row["dialect"], n, good, good / n, *interval))
    return sorted(found, key=lambda each: (-each.rate, -each.n, each.dialect))


def _recommended(model: str, contenders: Sequence[Contender]) -> Recommendation:
    if not contenders:
        return Recommendation(model, "unknown", None, None, None, (), ())
    # The best is the one of which the most is certain: nine of ten beat one of one.
    best = max(contenders, key=lambda each: (each.low, each.n))
    avoid = tuple(each.dialect for each in contenders if each.high < best.low)
    level = [each for each in contenders if each is not best and each.dialect not in avoid]
    if not level:
        verdict: Verdict = "clear" if avoid else "single"
        protocol = protocol_for(best.dialect, avoid) if avoid else None
        return Recommendation(
            model, verdict, best.dialect, protocol, None, avoid, tuple(contenders)
        )
    more = [_more_calls(best, each) for each in level]
    known = [number for number in more if number is not None]
    return Recommendation(
        model,
        "open",
        None,
        None,
        max(known) if known else None,
        avoid,
        tuple(contenders),
    )


def _more_calls(one: Contender, other: Contender) -> int | None:
    """Return about how many more calls of each would tell them apart; None if nothing would."""
    wanted = trials_to_tell(one.rate, other.rate)
    return None if wanted is None else max(1, wanted - min(one.n, other.n))
