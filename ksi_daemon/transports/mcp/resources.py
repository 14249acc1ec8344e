"""The log as MCP resources: which addresses there are, and the event that each one asks for.

    ksi://events                  the newest events
    ksi://events/42               one event by its place in the log
    ksi://events?pattern=agent:*  a page of those that match; ``next`` in it is the next page
    ksi://stories/42              all that led to event 42 and that it led to
    ksi://reliability             how many calls came to good, by model and dialect
    ksi://agents                  the agents that live

Reading one is asking for that event with the rights of whoever reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from ksi_daemon.errors import InvalidData, NotFound

__all__ = ["RESOURCES", "TEMPLATES", "Asked", "Described", "asked_for", "shown"]

PAGE: Final = 50
MAX_PAGE: Final = 1_000


class Described(NamedTuple):
    """A resource, or with variables in its address a template, and the event that it needs."""

    address: str
    name: str
    description: str
    event: str


class Asked(NamedTuple):
    """What a resource is: the result of *event* with *data*, as *shape* makes it of that and of
    the place of the asking itself in the log."""

    event: str
    data: dict[str, Any]
    shape: Callable[[Any, int], Any] = lambda result, own: result


RESOURCES: Final = (
    Described("ksi://events", "events", f"The newest {PAGE} events.", "monitor:get_events"),
    Described(
        "ksi://reliability",
        "reliability",
        "How many calls came to good, by model and dialect.",
        "monitor:reliability",
    ),
    Described("ksi://stats", "stats", "What the log holds.", "monitor:get_stats"),
    Described("ksi://agents", "agents", "The agents that live.", "agent:list"),
)
TEMPLATES: Final = (
    Described("ksi://events/{seq}", "event", "One event of the log.", "monitor:get_events"),
    Described(
        "ksi://events{?pattern,agent_id,correlation_id,status,after_seq,before_seq,limit}",
        "events that match",
        "A page of events, the newest first unless after_seq is given; next is the next page.",
        "monitor:get_events",
    ),
    Described(
        "ksi://stories/{seq}",
        "story",
        "All events of the story that an event is part of; each names its cause.",
        "monitor:tree",
    ),
    Described(
        "ksi://reliability/{group_by}",
        "reliability by",
        "The same by other keys, with commas between: agent, model, provider, dialect, tool, hour.",
        "monitor:reliability",
    ),
    Described("ksi://agents/{agent_id}", "agent", "One agent.", "agent:info"),
)


def asked_for(address: str) -> Asked:
    """Return what the resource at *address* is; raise NotFound or InvalidData."""
    try:
        parts = urlsplit(address)
        query = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    except ValueError as exc:
        raise InvalidData(f"{address[:200]!r} is no address: {exc}") from exc
    kind, which = parts.netloc, parts.path.removeprefix("/")
    reading = _READINGS.get((kind, bool(which)))
    if parts.scheme != "ksi" or reading is None:
        raise NotFound("resource", address[:200], [each.address for each in RESOURCES])
    if query and (kind, bool(which)) != ("events", False):
        raise InvalidData(f"ksi://{kind} takes no query", details={"path": "uri"})
    return reading(which, query)


def shown(available: Iterable[str], described: Iterable[Described]) -> list[Described]:
    """Return those of *described* whose event is one of *available*."""
    known = set(available)
    return [each for each in described if each.event in known]


def _events(_: str, query: dict[str, str]) -> Asked:
    unknown = sorted(set(query) - {"pattern", *_FILTERS, *_NUMBERS})
    if unknown:
        raise InvalidData(f"ksi://events takes no {unknown[0]!r}", details={"path": unknown[0]})
    data: dict[str, Any] = {name: query[name] for name in _FILTERS if name in query}
    data |= {name: _number(name, query[name]) for name in _NUMBERS if name in query}
    if "pattern" in query:
        data["patterns"] = query["pattern"].split(",")
    data["limit"] = min(data.get("limit", PAGE), MAX_PAGE)
    data["reverse"] = "after_seq" not in data
    return Asked("monitor:get_events", data, lambda result, own: _page(result, own, query, data))


def _page(result: Any, own: int, query: dict[str, str], data: dict[str, Any]) -> Any:
    """Return a page of events with the address of the one behind it, None behind the last.

    That somebody reads the log is in the log too; the reading itself is not what is asked for.
    """
    events = result["events"]
    following = None
    if len(events) == data["limit"]:
        ends = [each["seq"] for each in events]
        bound = {"before_seq": min(ends)} if data["reverse"] else {"after_seq": max(ends)}
        following = f"ksi://events?{urlencode({**query, **bound}, quote_via=quote, safe=':*,')}"
    others = [each for each in events if each["seq"] != own]
    return {"events": others, "next": following, "last_seq": result["last_seq"]}


def _event(which: str, _: dict[str, str]) -> Asked:
    seq = _number("seq", which)
    data = {"after_seq": max(0, seq - 1), "before_seq": seq + 1, "limit": 1}
    return Asked("monitor:get_events", data, lambda result, own: _only(result["events"], seq))


def _only(events: list[Any], seq: int) -> Any:
    if not events:
        raise NotFound("event", str(seq))
    return events[0]


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise InvalidData(f"{name} must be a number, not {text[:50]!r}", details={"path": name})
    return int(text)


_FILTERS: Final = ("agent_id", "correlation_id", "status")
_NUMBERS: Final = ("after_seq", "before_seq", "limit")
# By what stands behind ksi:// and by whether there is a path behind that.
_READINGS: Final[dict[tuple[str, bool], Callable[[str, dict[str, str]], Asked]]] = {
    ("events", False): _events,
    ("events", True): _event,
    ("stories", True): lambda which, _: Asked("monitor:tree", {"seq": _number("seq", which)}),
    ("reliability", False): lambda which, _: Asked("monitor:reliability", {}),
    ("reliability", True): lambda which, _: Asked(
        "monitor:reliability", {"group_by": which.split(",")}
    ),
    ("stats", False): lambda which, _: Asked("monitor:get_stats", {}),
    ("agents", False): lambda which, _: Asked("agent:list", {}),
    ("agents", True): lambda which, _: Asked("agent:info", {"agent_id": which}),
}
