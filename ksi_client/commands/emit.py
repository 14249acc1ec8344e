"""``ksi emit``: any event from the command line."""

from __future__ import annotations

from typing import Literal

import click

from ksi_client.completing import event_names
from ksi_client.payload import payload
from ksi_client.session import Session, common
from ksi_client.views import reports

__all__ = ["emit"]


@click.command()
@click.argument("event", shell_complete=event_names)
@click.argument("data", nargs=-1, metavar="[JSON|-] [KEY=VALUE]...")
@click.option(
    "--wait",
    type=click.Choice(["handled", "logged"]),
    default="handled",
    help="Wait for the handler's result (default) or only until the event is durable.",
)
@click.option("--key", metavar="TEXT", help="Idempotency key: the same key is taken once.")
@click.option("--timeout", type=float, metavar="SECONDS", help="How long to wait for the result.")
@common
@click.pass_obj
def emit(
    session: Session,
    event: str,
    data: tuple[str, ...],
    wait: Literal["handled", "logged"],
    key: str | None,
    timeout: float | None,
) -> None:
    """Emit any event and show its result.

    The data are a JSON object, - for one from stdin, and fields that are added to it. A VALUE
    is JSON if it reads as JSON, otherwise text.

    \b
      ksi emit state:set key=greeting value='{"text": "hello"}'
      ksi emit system:mark '{"label": "before the change"}'
    """
    with session.client() as client:
        answer = client.ask(event, payload(data), wait=wait, idempotency_key=key, timeout=timeout)
    out = session.output()
    out.show(answer.result, lambda: reports.result(answer, out.paint))
