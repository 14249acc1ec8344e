"""How Datasette shows a log: which tables, which facets, which ready queries. Pure.

Datasette reads the file only. It serves loopback, but every program of this machine can ask there
and a log is its owner's: so nothing is shown before the link with the one-time token was opened.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any, Final
from urllib.parse import quote

from ksi_daemon.log.queries import Ready

__all__ = ["arguments", "metadata"]

# The order in which people look, what to count by, what comes first.
_VIEWS: Final[dict[str, dict[str, Any]]] = {
    "v_events": {
        "description": "Events as they stand now.",
        "facets": ["event", "status", "agent_id", "error_code"],
        "sort_desc": "seq",
        "size": 50,
    },
    "v_attempts": {
        "description": "Blocks of replies that are calls or look like calls.",
        "facets": ["model", "dialect", "verdict", "came_to"],
        "sort_desc": "event_seq",
        "size": 50,
    },
    "v_reliability": {
        "description": "How many calls of each model and dialect came to good.",
        "sort": "rate",
    },
    "v_tree": {"description": "Stories, by correlation_id and path.", "size": 50},
    "v_diagnostics": {
        "description": "What was noted about replies.",
        "facets": ["code", "agent_id"],
    },
}
# What the views show better, and what only ksi itself has a use for.
_ASIDE: Final = (
    "anchor", "approvals", "attempts", "completions", "corrections", "events", "failures", "fixes",
    "kept_events", "manners", "mcp_servers", "outcomes", "purses", "readings", "rollup",
    "rollup_days", "rules", "spawns", "sqlite_sequence", "timers", "verdicts",
)  # fmt: skip
_SETTINGS: Final = {
    "allow_download": "off",
    "facet_time_limit_ms": "1000",
    "sql_time_limit_ms": "5000",
    "suggest_facets": "off",
}


def metadata(database: str, queries: Iterable[Ready]) -> dict[str, Any]:
    """Return what Datasette is to know of a log; *queries* are offered by their titles.

    *database* is its name there: that of the file without its suffix.
    """
    aside = {name: {"hidden": True} for name in _ASIDE}
    found = list(queries)
    canned = {each.name: {"sql": each.sql, "title": each.title, "hide_sql": True} for each in found}
    base = f"/{quote(database)}"
    links = [(each.name, each.title) for each in found]
    links += [(name, view["description"]) for name, view in _VIEWS.items()]
    listed = "".join(
        f'<li><a href="{base}/{name}">{escape(title)}</a></li>' for name, title in links
    )
    return {
        "title": "ksi",
        "description_html": f"<ul>{listed}</ul>",
        "allow": {"id": "root"},
        "databases": {database: {"tables": {**_VIEWS, **aside}, "queries": canned}},
    }


def arguments(path: str, port: int, *, browser: bool) -> list[str]:
    """Return the arguments of ``datasette``, which reads the metadata from its standard input."""
    settings = [word for item in _SETTINGS.items() for word in ("--setting", *item)]
    served = ["--host", "127.0.0.1", "--port", str(port), "--root", "--metadata", "-"]
    return ["serve", path, *served, *settings, *(["--open"] if browser else [])]
