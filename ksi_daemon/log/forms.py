"""The forms in which agents write events, and when the direct one may go (source 002). Pure.

The direct form, ``{"event": ..., "data": ...}``, carries data badly that are long or nested
(``extraction.legacy``). ``legacy_event`` says what becomes of it, in phases: ``allow``; ``warn``
notes complex data; ``reject_complex`` refuses them with a correction; ``reject`` refuses all of the
direct form. A phase is safe if it would have refused none of enough calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec

from ksi_daemon.log.metrics import wilson

__all__ = ["FORMS", "Form", "Migration", "Phase", "migration"]

LegacyEvent = Literal["warn", "reject_complex", "reject"]
Verdict = Literal["safe", "not yet", "too few calls"]

DIRECT: Final = "event"
FORMS: Final = (DIRECT, "ksi_tool_use", "ksi_body")
# Fewer calls say little: of 20 without one that is refused, up to a sixth may be (95 %).
ENOUGH: Final = 20
_MEANING: Final[Mapping[LegacyEvent, str]] = MappingProxyType(
    {
        "warn": "refuses nothing; complex data in the direct form are noted",
        "reject_complex": "refuses complex data in the direct form, with a correction",
        "reject": "refuses the direct form, with a correction",
    }
)


class Form(msgspec.Struct, frozen=True):
    """What an agent wrote in one form: *n* blocks, of which *good* could be read and fitted.

    *complex*: the data were, None where they could not be read. *last* is when it was last written.
    """

    agent: str | None
    model: str
    dialect: str
    complex: bool | None
    n: int
    good: int
    last: datetime


class Kind(msgspec.Struct, frozen=True):
    """What was written in one form by all: *rate* of *n* was *good*, within *low* and *high*."""

    dialect: str
    complex: bool | None
    n: int
    good: int
    rate: float
    low: float
    high: float


class Phase(msgspec.Struct, frozen=True):
    """One value of ``legacy_event``: of *calls*, it would have refused *refused*, by *agents*."""

    legacy_event: LegacyEvent
    meaning: str
    verdict: Verdict
    calls: int
    refused: int
    agents: tuple[dict[str, Any], ...]


class Migration(msgspec.Struct, frozen=True):
    """How far the agents are: the *phases*, the *furthest* that is safe, and what they write."""

    phases: tuple[Phase, ...]
    furthest: LegacyEvent
    kinds: tuple[Kind, ...]


def migration(forms: Sequence[Form]) -> Migration:
    """Return how far the agents that wrote *forms* are."""
    phases = tuple(_phase(name, forms) for name in _MEANING)
    safe = [phase.legacy_event for phase in phases if phase.verdict == "safe"]
    return Migration(phases, safe[-1], tuple(_kinds(forms)))


def _phase(name: LegacyEvent, forms: Iterable[Form]) -> Phase:
    forms = list(forms)
    refused = [form for form in forms if _is_refused(name, form)]
    calls = sum(form.n for form in forms)
    verdict: Verdict = "not yet" if refused else "safe"
    if name != "warn" and not refused and calls < ENOUGH:
        verdict = "too few calls"
    number = sum(form.n for form in refused)
    return Phase(name, _MEANING[name], verdict, calls, number, tuple(_writers(refused)))


def _writers(forms: Iterable[Form]) -> list[dict[str, Any]]:
    """Return who wrote *forms*, who wrote most first."""
    ordered = sorted(forms, key=lambda form: (form.agent or "", form.model))
    writers = [
        {
            "agent": agent,
            "model": model,
            "calls": sum(form.n for form in written),
            "last": max(form.last for form in written),
        }
        for (agent, model), written in (
            (key, list(group))
            for key, group in groupby(ordered, key=lambda form: (form.agent, form.model))
        )
    ]
    return sorted(writers, key=lambda writer: -int(writer["calls"]))


def _is_refused(name: LegacyEvent, form: Form) -> bool:
    if name == "warn" or form.dialect != DIRECT:
        return False
    # What could not be read is refused as it is.
    return name == "reject" or form.complex is True


def _kinds(forms: Iterable[Form]) -> Iterable[Kind]:
    sums: dict[tuple[str, bool | None], tuple[int, int]] = {}
    for form in forms:
        n, good = sums.get((form.dialect, form.complex), (0, 0))
        sums[form.dialect, form.complex] = n + form.n, good + form.good
    order = sorted(sums, key=lambda key: (FORMS.index(key[0]), key[1] is None, bool(key[1])))
    for key in order:
        n, good = sums[key]
        low, high = wilson(good, n) or (0.0, 1.0)
        yield Kind(*key, n, good, good / n, low, high)
