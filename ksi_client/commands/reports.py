"""``ksi reliability`` and ``ksi stats``: figures."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

import click

from ksi_client import vega
from ksi_client.blocking import BlockingClient
from ksi_client.durations import duration
from ksi_client.output import Output
from ksi_client.session import Session, common
from ksi_client.times import parse_time
from ksi_client.views import advice
from ksi_client.views.reliability import details as detailed
from ksi_client.views.reliability import rates
from ksi_client.views.tables import pairs
from ksi_client.views.trend import charts
from ksi_daemon.events import now

__all__ = ["reliability", "stats"]

# A trend of fewer days than this is shown by hours.
FEW_DAYS: Final = 4
_TIMES: Final = ("hour", "day")
KEYS: Final = ("agent", "model", "provider", "dialect", "tool", "size", *_TIMES)
_CHOICES: Final = ("--details", "--trend", "--vega", "--recommend", "--migration")


@click.command()
@click.option(
    "--by",
    default="model,dialect",
    metavar="KEYS",
    callback=lambda context, parameter, value: _keys(value),
    help="Rows for each agent, model, provider, dialect, tool, size, hour, day (model,dialect).",
)
@click.option("--since", metavar="TIME", callback=parse_time, help="Since then, or 2h ago.")
@click.option("--until", metavar="TIME", callback=parse_time, help="Before.")
@click.option("--last", metavar="TIME", help="Of the last 24h, 7d: since a full hour.")
@click.option("--details", is_flag=True, help="Also what went wrong, and through whom.")
@click.option("--trend", is_flag=True, help="Rates over time, as charts.")
@click.option("--vega", "as_vega", is_flag=True, help="Rates over time, as Vega-Lite JSON.")
@click.option("--recommend", is_flag=True, help="Which dialect fits each model.")
@click.option("--migration", is_flag=True, help="Who still writes the direct form of events.")
@click.option("--exact", is_flag=True, help="Count all rows instead of reading the roll-up.")
@common
@click.pass_obj
def reliability(
    session: Session,
    /,
    by: list[str],
    since: datetime | None,
    until: datetime | None,
    last: str | None,
    exact: bool,
    **chosen: bool,
) -> None:
    """Show how many calls of each model came to good.

    Every block that looks like a call is counted once, and what became of it: strict (read as
    written), repaired, rejected; then handled, failed, denied. The rate has its 95 % interval.
    """
    if sum(chosen.values()) > 1:
        raise click.UsageError(f"only one of {', '.join(_CHOICES)}")
    asked: dict[str, Any] = {"group_by": by, **_span(since, until, last)}
    asked |= {"exact": True} if exact else {}
    out = session.output()
    with session.client() as client:
        if chosen["recommend"]:
            _recommend(client, asked, out)
        elif chosen["migration"]:
            _migrate(client, asked, out)
        elif chosen["trend"] or chosen["as_vega"]:
            _trend(client, asked, out, as_vega=chosen["as_vega"])
        else:
            _table(client, asked, out, details=chosen["details"])


@click.command()
@click.option("--prometheus", is_flag=True, help="Counters and gauges as Prometheus reads them.")
@common
@click.pass_obj
def stats(session: Session, prometheus: bool) -> None:
    """Show how the daemon fares and what its log holds."""
    with session.client() as client:
        if prometheus:
            click.echo(client.request("monitor:metrics")["text"], nl=False)
            return
        found = {
            "daemon": client.request("system:health"),
            "process": client.request("system:stats"),
            "log": client.request("monitor:get_stats"),
        }
    out = session.output()
    out.show(found, lambda: pairs(found, paint=out.paint))


def _table(client: BlockingClient, asked: dict[str, Any], out: Output, *, details: bool) -> None:
    rows = client.request("monitor:reliability", asked)["rows"]
    shown = detailed if details else rates
    if not rows and asked.keys() & {"since", "until"}:
        out.each(rows, lambda: ["no completions in this time"])
    else:
        out.each(rows, lambda: shown(asked["group_by"], rows, out.paint, out.width))


def _trend(client: BlockingClient, asked: dict[str, Any], out: Output, *, as_vega: bool) -> None:
    keys = [key for key in asked["group_by"] if key not in _TIMES]
    steps = [key for key in asked["group_by"] if key in _TIMES]
    group_by = [*keys, *(steps or ["day"])[:1]]
    rows = client.request("monitor:reliability", {**asked, "group_by": group_by})["rows"]
    if not steps and len({row["day"] for row in rows}) < FEW_DAYS:
        group_by = [*keys, "hour"]
        rows = client.request("monitor:reliability", {**asked, "group_by": group_by})["rows"]
    if as_vega:
        out.value(vega.trend(group_by, rows))
    else:
        out.each(rows, lambda: charts(group_by, rows, out.paint, out.width))


def _recommend(client: BlockingClient, asked: dict[str, Any], out: Output) -> None:
    told = client.request("monitor:reliability", {**asked, "include": ["recommendations"]})
    found = told["recommendations"]
    out.each(found, lambda: advice.recommendations(found, out.paint, out.width))


def _migrate(client: BlockingClient, asked: dict[str, Any], out: Output) -> None:
    found = client.request("monitor:reliability", {**asked, "include": ["migration"]})["migration"]
    out.show(found, lambda: advice.migration(found, out.paint, out.width))


def _keys(written: str) -> list[str]:
    keys = [key.strip() for key in written.split(",") if key.strip()]
    wrong = [key for key in keys if key not in KEYS]
    if wrong or not keys:
        raise click.BadParameter(f"no key {', '.join(wrong)!r}; there are {', '.join(KEYS)}")
    return keys


def _span(since: datetime | None, until: datetime | None, last: str | None) -> dict[str, str]:
    """Return the time that is asked for; the roll-up is read fastest from a full hour on."""
    times = {"since": since, "until": until}
    if last is not None:
        if since is not None:
            raise click.UsageError("either --last or --since")
        begin = now() - timedelta(seconds=duration(last))
        times["since"] = begin.replace(minute=0, second=0, microsecond=0)
    return {name: at.isoformat() for name, at in times.items() if at is not None}
