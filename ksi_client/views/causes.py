"""How it reads why an event fired: the checks that it passed, its handler, its result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from ksi_client.text import Paint, clip, visible, wrapped
from ksi_daemon.events import Event

__all__ = ["Handling", "PassedCheck", "Why", "about", "lost_cause"]

_TITLE: Final = 10  # cells
# Of what the agent was told.
_LINES: Final = 4


class PassedCheck(msgspec.Struct, frozen=True):
    """A check that the event went through; one that it did not pass is the last."""

    check: str
    passed: bool


class Handling(msgspec.Struct, frozen=True):
    """What handles such an event by now; *kind* ``notice`` means that nobody does."""

    kind: str
    summary: str
    effect: str = ""
    handlers: int = 0


class Why(msgspec.Struct, frozen=True):
    """What ``monitor:why`` answers."""

    event: Event
    checks: Sequence[PassedCheck]
    handler: Handling | None
    result: Any
    causes: Sequence[Event]
    effects: Sequence[Event]
    lost_cause: str | None
    state: str | None = None
    correction: str | None = None
    fixes: int | None = None


def about(why: Why, paint: Paint, cells: int) -> Iterator[str]:
    """Yield what the log and the daemon say of the event itself, a title before each."""
    if why.checks:
        yield _titled("checks", _checked(why.checks, paint), paint)
    if why.handler is not None and why.handler.kind != "notice":
        more = f", and {why.handler.handlers - 1} more" if why.handler.handlers > 1 else ""
        told = f"{why.handler.effect}, {why.handler.kind}{more}: {why.handler.summary}"
        yield _titled("handler", clip(visible(told), cells - _TITLE), paint)
    if why.result not in (None, {}):
        result = visible(msgspec.json.encode(why.result).decode())
        yield _titled("result", clip(result, cells - _TITLE), paint)
    yield from _of_an_attempt(why, paint, cells)


def lost_cause(why: Why, paint: Paint, cells: int) -> Iterator[str]:
    """Yield that the chain of causes began before what the log still holds, if it did."""
    if why.lost_cause is not None:
        told = f"what led to this, event {why.lost_cause}, is no longer in the log"
        yield from (paint(line, "yellow") for line in wrapped(visible(told), cells))


def _of_an_attempt(why: Why, paint: Paint, cells: int) -> Iterator[str]:
    if why.fixes is not None:
        yield _titled("fixes", f"attempt #{why.fixes}: ksi attempts show {why.fixes}", paint)
    if why.state is None:
        return
    told = list(wrapped(visible(why.correction or "nothing", lines=True), cells - _TITLE))
    for number, line in enumerate(told[:_LINES]):
        yield _titled("" if number else "told", line, paint)
    if len(told) > _LINES:
        yield _titled("", paint(f"⋮ {len(told) - _LINES} lines", "dim"), paint)
    seq = why.event.seq
    yield _titled("attempt", f"{visible(why.state)}: ksi attempts show {seq}", paint)


def _checked(checks: Sequence[PassedCheck], paint: Paint) -> str:
    return "  ".join(
        f"{paint('✓', 'green') if each.passed else paint('✗', 'red')} {visible(each.check)}"
        for each in checks
    )


def _titled(title: str, text: str, paint: Paint) -> str:
    return f"{paint(title.ljust(_TITLE - 1), 'dim')} {text}"
