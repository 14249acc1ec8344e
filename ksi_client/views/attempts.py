"""How calls that went wrong read: all of them in a table, one of them in full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

import msgspec

from ksi_client.text import Color, Paint, clip, visible, wrapped
from ksi_client.views.spans import excerpt
from ksi_client.views.tables import Cell, Column, plain, table

__all__ = ["counted", "fixed", "listed", "shown"]

_STATES: Final[Mapping[str, Color]] = MappingProxyType(
    {"open": "yellow", "resolved": "green", "dismissed": "dim"}
)
_INDENT: Final = "  "


def listed(
    attempts: Sequence[Mapping[str, Any]], counts: Mapping[str, Any], paint: Paint, cells: int
) -> Iterator[str]:
    """Yield a table of *attempts*, and below it how many there are."""
    if attempts:
        columns = [
            Column("attempt", right=True),
            *map(Column, ("when", "agent", "model", "what", "event", "state", "text")),
        ]
        rows = [_row(each) for each in attempts]
        yield from table(columns, rows, paint=paint, cells=cells)
        yield ""
    yield paint(counted(counts), "dim")


def counted(counts: Mapping[str, Any]) -> str:
    """Return how many attempts there are, and what came of those that were fixed."""
    parts = [f"{counts.get(state, 0)} {state}" for state in _STATES]
    kinds = [f"{count} {kind}" for kind, count in sorted(counts.get("kinds", {}).items())]
    fixes = [f"{count} {status}" for status, count in sorted(counts.get("fixes", {}).items())]
    text = ", ".join(parts) + (f" ({', '.join(kinds)})" if kinds else "")
    return visible(text + (f"; fixes: {', '.join(fixes)}" if fixes else ""))


def shown(attempt: Mapping[str, Any], paint: Paint, cells: int) -> Iterator[str]:
    """Yield all about one attempt: its text in its reply, what was wrong, what was done."""
    yield _title(attempt, paint, cells)
    yield ""
    yield from _text(attempt, paint, cells)
    yield ""
    error = attempt.get("error") or {}
    reason = f"{attempt['code']}: {error.get('message', '')}"
    yield from _block("what was wrong", reason, paint, cells)
    if error.get("hint"):
        yield from _block("hint", str(error["hint"]), paint, cells)
    told = attempt.get("correction")
    yield from _block("what the agent was told", told or "nothing", paint, cells)
    if attempt.get("corrected"):
        turns = attempt["corrected"]
        what = f"it made this good {turns} turn{'s' * (turns != 1)} later"
        yield from _block("what the agent did", what, paint, cells)
    for fix in attempt.get("fixes", ()):
        yield from _block("what was done", _told(fix), paint, cells)


def fixed(ended: Mapping[str, Any], paint: Paint, cells: int) -> Iterator[str]:
    """Yield how the event ended that was submitted in place of an attempt."""
    good = ended.get("status") == "handled"
    sign = paint("✓", "green") if good else paint("✗", "red")
    what = f"#{ended.get('seq')} {ended.get('event')}, in place of attempt #{ended.get('attempt')}"
    yield f"{sign} {visible(what)}: {visible(str(ended.get('status')))}"
    error = ended.get("error")
    if error:
        yield from wrapped(visible(f"{error['code']}: {error['message']}"), cells)
        if error.get("hint"):
            yield from wrapped(visible(f"hint: {error['hint']}"), cells)
    elif ended.get("result") not in (None, {}):
        yield clip(visible(msgspec.json.encode(ended["result"]).decode()), cells)


def _row(attempt: Mapping[str, Any]) -> Sequence[Cell | str]:
    state = str(attempt.get("state"))
    event = attempt.get("tool") or "-"
    return (
        Cell(f"#{attempt['seq']}", "bold"),
        Cell(_when(str(attempt["ts"])), "dim"),
        Cell(plain(attempt.get("agent_id")), "cyan"),
        plain(attempt.get("model")),
        Cell(f"{attempt['code']}", "magenta"),
        str(event),
        Cell(state, _STATES.get(state, "")),
        Cell(" ".join(str(attempt.get("text", "")).split()), "dim"),
    )


def _when(ts: str) -> str:
    return f"{datetime.fromisoformat(ts).astimezone():%m-%d %H:%M:%S}"


def _title(attempt: Mapping[str, Any], paint: Paint, cells: int) -> str:
    state = str(attempt.get("state"))
    who = f"{plain(attempt.get('agent_id'))}, {plain(attempt.get('provider'))} "
    about = f"{who}{plain(attempt.get('model'))}, {_when(str(attempt['ts']))}"
    number = paint(f"attempt #{attempt['seq']}", "bold")
    return (
        f"{number}  {paint(visible(state), _STATES.get(state, ''))}  {paint(visible(about), 'dim')}"
    )


def _text(attempt: Mapping[str, Any], paint: Paint, cells: int) -> Iterator[str]:
    """Yield the call where it stands in its reply; alone if that is gone, or it is native."""
    start, end, reply = attempt["start"], attempt["end"], attempt.get("reply")
    if reply is not None and start < end:
        yield from excerpt(reply, start, end, paint=paint, cells=cells, color="magenta")
        place = f"characters {start}-{end}, dialect {attempt['dialect']}"
        repairs = attempt.get("repairs")
        yield paint(
            visible(f"{place}, repaired: {', '.join(repairs)}" if repairs else place), "dim"
        )
        return
    yield from wrapped(visible(str(attempt.get("text", "")), lines=True), cells)
    yield paint(visible(f"dialect {attempt['dialect']}"), "dim")


def _block(title: str, text: str, paint: Paint, cells: int) -> Iterator[str]:
    yield paint(title, "dim")
    for line in wrapped(visible(text, lines=True), max(cells - len(_INDENT), 20)):
        yield f"{_INDENT}{line}"


def _told(fix: Mapping[str, Any]) -> str:
    when, who = _when(str(fix["ts"])), fix.get("source")
    if fix.get("kind") == "dismissed":
        reason = f": {fix['reason']}" if fix.get("reason") else ""
        return f"{when}  dismissed by {who}{reason}"
    how = "submitted again" if fix.get("kind") == "again" else "submitted, edited,"
    error = fix.get("error")
    why = f", {error['code']}: {error['message']}" if error else ""
    return f"{when}  {how} by {who} as event #{fix.get('seq')}: {fix.get('status')}{why}"
