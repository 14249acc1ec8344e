"""``ksi emit``: any event from the command line, and the event names to complete it with."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Literal

import click
import msgspec

from ksi_client.completing import event_names
from ksi_client.session import Session, common
from ksi_client.text import Paint, visible
from ksi_client.wire import Answer

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
    out.show(answer.result, lambda: _shown(answer, out.paint))


def payload(words: tuple[str, ...]) -> dict[str, Any]:
    """Return the data that *words* spell: a JSON object first, then fields.

    Raise UsageError for what is neither.
    """
    fields = words
    data: dict[str, Any] = {}
    if words and (words[0] == "-" or words[0].lstrip().startswith("{")):
        text = sys.stdin.read() if words[0] == "-" else words[0]
        data, fields = _object(text), words[1:]
    return data | dict(map(_field, fields))


def _shown(answer: Answer, paint: Paint) -> Iterator[str]:
    """Yield the result as JSON in lines, and where the event is in the log."""
    result = msgspec.json.format(bytes(answer.result), indent=2).decode()
    yield visible(result, lines=True)
    if answer.seq is not None:
        yield paint(f"#{answer.seq}{', taken before' if answer.duplicate else ''}", "dim")


def _object(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise click.UsageError(f"the data are no JSON object: {exc}") from exc


def _field(word: str) -> tuple[str, Any]:
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise click.UsageError(f"{word!r} is neither a JSON object nor KEY=VALUE")
    try:
        return name, msgspec.json.decode(value)
    except (msgspec.MsgspecError, RecursionError):
        return name, value
