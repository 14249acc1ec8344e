"""How lists read: agents, replies, what there is and what it takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from shlex import quote
from typing import Any, Final

import msgspec

from ksi_client.text import Color, Paint, clip, visible, wrapped
from ksi_client.views.tables import Cell, Column, plain, table
from ksi_client.wire import Answer

__all__ = [
    "agents",
    "answer",
    "called",
    "described",
    "ended",
    "events",
    "result",
]

_STATES: Final[dict[str, Color]] = {"running": "yellow", "idle": "green", "terminated": "dim"}
_STATUSES: Final[dict[str, tuple[str, Color]]] = {
    "handled": ("✓", "green"),
    "denied": ("⊘", "yellow"),
    "unknown": ("?", "yellow"),
}


def agents(listed: Sequence[Mapping[str, Any]], paint: Paint, cells: int) -> Iterator[str]:
    """Yield a table of agents."""
    if not listed:
        yield "no agents; ksi spawn brings one to life"
        return
    columns = [
        Column(name) for name in ("agent", "state", "says", "provider", "model", "component")
    ]
    rows = [
        (
            Cell(str(each.get("agent_id")), "cyan"),
            Cell(str(each.get("state")), _STATES.get(str(each.get("state")), "")),
            plain(each.get("status") or each.get("progress")),
            plain(each.get("provider")),
            plain(each.get("model")),
            plain(each.get("component")),
        )
        for each in listed
    ]
    yield from table(columns, rows, paint=paint, cells=cells)


def answer(reply: Mapping[str, Any], paint: Paint, cells: int) -> Iterator[str]:
    """Yield an agent's answer: its text, what it called, how it came to its end."""
    text = str(reply.get("text") or "").strip()
    if text:
        yield from wrapped(visible(text, lines=True), cells)
    for each in reply.get("calls") or ():
        yield called(each, paint, cells)
    yield ended(reply, paint)


def ended(reply: Mapping[str, Any], paint: Paint) -> str:
    """Return in how many turns an answer came to its end, and by what."""
    turns, reason = reply.get("turns"), str(reply.get("finish_reason"))
    text = f"{turns} turn{'s' * (turns != 1)}, {reason}"
    if reply.get("rejected"):
        text += f", {reply['rejected']} rejected (ksi events extraction:rejected)"
    error = reply.get("error")
    if error:
        text += f": {error.get('message')}"
    return paint(visible(text), "dim" if reason == "stop" else "yellow")


def called(made: Mapping[str, Any], paint: Paint, cells: int) -> str:
    """Return one call of an answer: its sign, its name, its result or its error."""
    sign, color = _STATUSES.get(str(made.get("status")), ("✗", "red"))
    name = visible(str(made.get("name")))
    error = made.get("error")
    if error:
        came = f"{error.get('code')}: {error.get('message')}"
    else:
        came = "" if made.get("result") is None else _json(made["result"])
    room = max(cells - len(name) - 4, 0)
    return f"{paint(sign, color)} {paint(name, 'bold')}  {clip(visible(came), room)}".rstrip()


def result(reply: Answer, paint: Paint) -> Iterator[str]:
    """Yield the result of an event as JSON in lines, and where the event is in the log."""
    text = msgspec.json.format(bytes(reply.result), indent=2).decode()
    yield visible(text, lines=True)
    if reply.seq is not None:
        yield paint(f"#{reply.seq}{', taken before' if reply.duplicate else ''}", "dim")


def events(
    listed: Iterable[Mapping[str, Any]],
    notices: Iterable[Mapping[str, Any]],
    paint: Paint,
    cells: int,
) -> Iterator[str]:
    """Yield a table of the events that there are."""
    rows = [
        (Cell(each["name"], "bold"), Cell(each["class"], "dim"), each["summary"]) for each in listed
    ]
    rows += [
        (Cell(each["name"], "cyan"), Cell("notice", "dim"), each["summary"]) for each in notices
    ]
    rows.sort(key=lambda row: row[0].text)
    yield from table(
        [Column("event"), Column("class"), Column("what it does")], rows, paint=paint, cells=cells
    )


def described(event: Mapping[str, Any], paint: Paint, cells: int) -> Iterator[str]:
    """Yield what one event does, the fields of its data, and an example to type."""
    yield f"{paint(visible(event['name']), 'bold')}  {paint(visible(event['class']), 'dim')}"
    yield from wrapped(visible(event["summary"]), cells)
    schema = event.get("schema") or {}
    fields = schema.get("properties") or {}
    if schema.get("description"):
        yield ""
        yield from wrapped(" ".join(visible(schema["description"], lines=True).split()), cells)
    if fields:
        yield ""
        required = set(schema.get("required") or ())
        rows = [
            (
                Cell(name, "bold" if name in required else ""),
                _type(field),
                "required" if name in required else _default(field),
            )
            for name, field in fields.items()
        ]
        columns = [Column("field"), Column("type"), Column("default")]
        yield from table(columns, rows, paint=paint, cells=cells)
    example = event.get("example")
    if example:
        data = f" {quote(_json(example['data']))}" if example.get("data") else ""
        yield ""
        yield f"{paint('$', 'dim')} ksi emit {visible(example['event'] + data)}"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _type(field: Mapping[str, Any]) -> str:
    """Return the type that a JSON Schema describes, in a few words."""
    if "anyOf" in field:
        return " or ".join(_type(each) for each in field["anyOf"] if each.get("type") != "null")
    if "enum" in field:
        return " or ".join(map(_json, field["enum"]))
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    kind = field.get("type", "any")
    if kind == "array":
        return f"list of {_type(field.get('items') or {})}"
    return str(kind)


def _default(field: Mapping[str, Any]) -> str:
    return _json(field["default"]) if field.get("default") is not None else ""
