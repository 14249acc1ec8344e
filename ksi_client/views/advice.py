"""How advice reads: which dialect fits a model, and which phase of a migration is safe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from ksi_client.text import Color, Paint, visible
from ksi_client.views.tables import Cell, Column, table

__all__ = ["audit", "migration", "recommendations"]

_VERDICTS: Final[dict[str, Color]] = {"safe": "green", "not yet": "red", "too few calls": "yellow"}
_COMPLEX: Final = {True: "complex", False: "simple", None: "unreadable"}
# Agents that are named in a line; JSON has all.
_NAMED: Final = 3


def recommendations(told: Sequence[Mapping[str, Any]], paint: Paint, cells: int) -> Iterator[str]:
    """Yield what is recommended for each model, and the figures that it rests on."""
    if not told:
        yield "no completions yet; ksi send gives an agent something to answer"
    for number, each in enumerate(told):
        if number:
            yield ""
        yield paint(visible(each["model"] or "-"), "bold")
        yield f"  {visible(_sentence(each))}"
        if each["protocol"] is not None:
            spelled = msgspec.json.encode(each["protocol"]).decode().strip('"')
            yield f"  protocol: {visible(spelled)}"
        rows = [
            (
                Cell(f"  {one['dialect']}", "green" if one["dialect"] == each["dialect"] else ""),
                str(one["n"]),
                f"{one['rate'] * 100:.1f}",
                f"{one['low'] * 100:.1f}-{one['high'] * 100:.1f}",
            )
            for one in each["contenders"]
        ]
        columns = [Column("  dialect"), Column("calls", True), Column("fit", True), Column("95 %")]
        if rows:
            yield from table(columns, rows, paint=paint, cells=cells)


def migration(told: Mapping[str, Any], paint: Paint, cells: int) -> Iterator[str]:
    """Yield which phase of the way from the direct form to others is safe, and who holds it up."""
    yield paint('The direct form of events, {"event": …, "data": …}, and doing without it', "bold")
    rows = [
        (
            Cell(phase["legacy_event"], "bold"),
            Cell(phase["verdict"], _VERDICTS[phase["verdict"]]),
            f"{phase['refused']} of {phase['calls']}",
            _agents(phase["agents"]) or phase["meaning"],
        )
        for phase in told["phases"]
    ]
    columns = [Column("legacy_event"), Column("verdict"), Column("refuses"), Column("by whom")]
    yield from table(columns, rows, paint=paint, cells=cells)
    yield ""
    yield paint("How the calls in each form could be read and fitted", "bold")
    kinds = [
        (
            kind["dialect"],
            _COMPLEX[kind["complex"]],
            str(kind["n"]),
            f"{kind['rate'] * 100:.1f}",
            f"{kind['low'] * 100:.1f}-{kind['high'] * 100:.1f}",
        )
        for kind in told["kinds"]
    ]
    columns = [Column("form"), Column("data"), Column("calls", True), Column("fit", True)]
    yield from table([*columns, Column("95 %")], kinds, paint=paint, cells=cells)
    yield ""
    yield f"Safe now: protocol: {{preset: ksi, legacy_event: {told['furthest']}}}"


def audit(found: Mapping[str, Any], paint: Paint) -> Iterator[str]:
    """Yield whether anything was lost or is counted wrongly, one line for each question."""
    unread, calls, wrong = found["unread"], found["without_event"], found["miscounted"]
    lines = [
        (unread, f"{found['replies']} replies read again", "no block was lost", "hold more blocks"),
        (calls, "calls that ran", "each has its event", "have no event"),
        (wrong, f"{found['cubes']} tables of counts", "as a full scan has them", "are wrong"),
    ]
    for bad, what, well, ill in lines:
        sign = paint("✗", "red") if bad else paint("✓", "green")
        yield f"{sign} {what}: {f'{len(bad)} {ill}: {_some(bad)}' if bad else well}"
    if found["unknown"]:
        yield f"  of {found['unknown']} replies it is not known how they were read"


def _some(bad: Sequence[Any]) -> str:
    named = [visible(each if isinstance(each, str) else ".".join(map(str, each))) for each in bad]
    more = [f"{len(named) - _NAMED} more"] if len(named) > _NAMED else []
    return ", ".join([*named[:_NAMED], *more])


def _sentence(each: Mapping[str, Any]) -> str:
    rates = {one["dialect"]: f"{one['rate'] * 100:.1f} %" for one in each["contenders"]}
    match each["verdict"]:
        case "unknown":
            return "made no call yet"
        case "single":
            return f"wrote only {each['dialect']}: there is nothing to compare it with"
        case "clear":
            worse = ", ".join(f"{name} {rates[name]}" for name in each["avoid"])
            return f"use {each['dialect']}: {rates[each['dialect']]} against {worse}"
    level = [name for name in rates if name not in each["avoid"]]
    told = f"cannot tell {_listed(level)} apart"
    if each["avoid"]:
        told += (
            f"; {_listed(each['avoid'])} is worse"
            if len(each["avoid"]) == 1
            else (f"; {_listed(each['avoid'])} are worse")
        )
    if each["more_calls"] is None:
        return f"{told}: they do the same"
    return f"{told}; about {_about(each['more_calls'])} more calls of each would tell"


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _about(number: int) -> str:
    """Return *number* with no more digits than an estimate has."""
    unit = 10 ** max(len(str(number)) - 2, 0)
    return f"{-(-number // unit) * unit:,}"


def _agents(agents: Sequence[Mapping[str, Any]]) -> str:
    named = [f"{each['agent'] or '-'} {each['calls']}" for each in agents[:_NAMED]]
    if len(agents) > _NAMED:
        named.append(f"{len(agents) - _NAMED} more")
    return ", ".join(named)
