"""How a story reads: what caused what, from its first event to the last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from ksi_client.text import Color, Paint, visible, width, wrapped
from ksi_client.views.events import duration, headline
from ksi_client.views.spans import excerpt
from ksi_daemon.events import ErrorInfo, Event

__all__ = ["Story"]

_TRUNK, _FORK, _LAST, _BLANK = "│  ", "├─ ", "└─ ", "   "
_CALL_NOTICE: Final = "extraction:call"
# Where an event carries a message to an agent.
_MESSAGES: Final = {"agent:send": "message", "agent:spawn": "prompt"}
# Lines of a message that `why` shows.
_MESSAGE_LINES: Final = 6


class Story:
    """The events of one correlation id, by what caused them."""

    def __init__(self, correlation_id: str, events: Sequence[Event]) -> None:
        self.correlation_id = correlation_id
        self.events = list(events)
        self._by_id = {event.id: event for event in events}
        self._effects: dict[str | None, list[Event]] = {}
        for event in events:
            cause = event.cause_id if event.cause_id in self._by_id else None
            if not self._is_announcement(event):
                self._effects.setdefault(cause, []).append(event)

    def find(self, reference: str | int) -> Event | None:
        """Return the event with this id or seq, or None."""
        if isinstance(reference, int):
            return next((event for event in self.events if event.seq == reference), None)
        return self._by_id.get(reference)

    def chain(self, event: Event) -> list[Event]:
        """Return *event* and what led to it, the story's first event first."""
        chain = [event]
        while (cause := self._by_id.get(chain[-1].cause_id or "")) and cause not in chain:
            chain.append(cause)
        return chain[::-1]

    def tree(self, paint: Paint, cells: int) -> Iterator[str]:
        """Yield the whole story as a tree."""
        yield self._title(paint)
        for root in self._effects.get(None, ()):
            yield headline(root, paint, cells)
            yield from self._below(root, "", paint, cells)

    def why(
        self,
        event: Event,
        paint: Paint,
        cells: int,
        *,
        about: Callable[[int], Iterable[str]] = lambda cells: (),
    ) -> Iterator[str]:
        """Yield why *event* fired: each cause, the text it was written in, what it led to.

        *about* returns lines of so many cells that say more of *event* itself.
        """
        indent = ""
        chain = self.chain(event)
        for depth, each in enumerate(chain):
            turn = _LAST if depth else ""
            following = chain[depth + 1] if depth + 1 < len(chain) else None
            follows = following is not None or bool(self._effects.get(each.id))
            trunk = indent + (_TRUNK if follows else _BLANK)
            told = list(self._told(each, following, paint, cells - len(trunk) - 1))
            line = headline(each, paint, cells - len(indent), about=not told)
            yield paint(indent[:-3] + turn, "dim") + line
            if each is event:
                told += about(cells - len(trunk) - 1)
            for line in told:
                yield f"{paint(trunk, 'dim')} {line}".rstrip()
            indent += _BLANK
        yield from self._below(event, indent[:-3], paint, cells)

    def _title(self, paint: Paint) -> str:
        first, last = self.events[0], self.events[-1]
        seconds = (last.ts - first.ts).total_seconds()
        count = f"{len(self.events)} event{'s' * (len(self.events) != 1)}"
        when = f"{first.ts.astimezone():%Y-%m-%d %H:%M:%S}"
        text = f"story {visible(self.correlation_id)}  {count}  {duration(seconds * 1000)}  {when}"
        return paint(text, "dim")

    def _below(self, event: Event, indent: str, paint: Paint, cells: int) -> Iterator[str]:
        """Yield what *event* led to, a line each, the effects of each below it."""
        effects = self._effects.get(event.id, [])
        for effect in effects:
            last = effect is effects[-1]
            lead = indent + (_LAST if last else _FORK)
            yield paint(lead, "dim") + headline(effect, paint, cells - len(lead))
            yield from self._below(effect, indent + (_BLANK if last else _TRUNK), paint, cells)

    def _told(self, event: Event, effect: Event | None, paint: Paint, cells: int) -> Iterator[str]:
        """Yield the text in *event* that led to *effect*: a message, a reply with the call."""
        data = msgspec.json.decode(event.data)
        if effect is None and event.error is not None:
            yield from _explained(event.error, cells)
        if event.name == "completion:result":
            yield from _reply(data, effect, paint, cells)
        elif data.get(_MESSAGES.get(event.name)):
            yield from _shortened(str(data[_MESSAGES[event.name]]), paint, cells)

    def _is_announcement(self, event: Event) -> bool:
        """Say whether *event* only announces a call whose own event is in the story."""
        return event.name == _CALL_NOTICE and event.id.removesuffix(".call") in self._by_id


def _reply(data: dict[str, Any], effect: Event | None, paint: Paint, cells: int) -> Iterator[str]:
    """Yield a model's reply around the call that *effect* was written as."""
    yield paint(visible(_produced(data)), "dim")
    text = str(data.get("text", ""))
    call = effect.call if effect is not None else None
    if call is None:
        yield from _shortened(text, paint, cells)
        return
    color: Color = "magenta" if effect is not None and effect.status == "rejected" else "green"
    yield from excerpt(text, call.start, call.end, paint=paint, cells=cells, color=color)
    repairs = f", repaired: {', '.join(call.repairs)}" if call.repairs else ""
    note = f"characters {call.start}-{call.end}, dialect {call.dialect}{repairs}"
    yield paint(visible(note), "yellow" if call.repairs else "dim")


def _explained(error: ErrorInfo, cells: int) -> Iterator[str]:
    """Yield in full what the headline has no room for, and what to do about it."""
    text = visible(f"{error.code}: {error.message}")
    if width(text) > cells // 3:
        yield from wrapped(text, max(cells, 20))
    if error.hint:
        yield from wrapped(visible(f"hint: {error.hint}"), max(cells, 20))


def _produced(data: dict[str, Any]) -> str:
    """Return by what a reply was made, in how long."""
    words = [f"turn {data.get('turn')}", f"{data.get('provider')} {data.get('model')}"]
    if isinstance(data.get("latency_ms"), (int, float)):
        words.append(duration(data["latency_ms"]))
    if data.get("stop_reason") != "stop":
        words.append(f"ended by {data.get('stop_reason')}")
    return ", ".join(words)


def _shortened(text: str, paint: Paint, cells: int) -> Iterator[str]:
    lines = list(wrapped(visible(text.strip(), lines=True), max(cells, 20)))
    yield from lines[:_MESSAGE_LINES]
    if len(lines) > _MESSAGE_LINES:
        yield paint(f"⋮ {len(lines) - _MESSAGE_LINES} lines", "dim")
