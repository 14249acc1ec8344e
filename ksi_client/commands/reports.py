"""``ksi reliability`` and ``ksi stats``: figures."""

from __future__ import annotations

import click

from ksi_client.session import Session, common
from ksi_client.views import reports
from ksi_client.views.tables import pairs

__all__ = ["reliability", "stats"]


@click.command()
@click.option(
    "--by",
    default="model,dialect",
    metavar="KEYS",
    help="Rows for each agent, model, provider, dialect, tool, hour (model,dialect).",
)
@click.option("--since", metavar="TIME", help="Of completions since 2026-01-31T12:00:00Z.")
@click.option("--until", metavar="TIME", help="Of completions before.")
@common
@click.pass_obj
def reliability(session: Session, by: str, since: str | None, until: str | None) -> None:
    """Show how many calls of each model came to good.

    Every block that looks like a call is counted once, and what became of it: strict (read as
    written), repaired, rejected; then handled, failed, denied. The rate has its 95 % interval.
    """
    data = {"group_by": [key.strip() for key in by.split(",") if key.strip()]}
    times = {name: at for name, at in (("since", since), ("until", until)) if at is not None}
    with session.client() as client:
        result = client.request("monitor:reliability", {**data, **times})
    out = session.output()
    rows = result["rows"]
    out.each(rows, lambda: reports.reliability(data["group_by"], rows, out.paint, out.width))


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
