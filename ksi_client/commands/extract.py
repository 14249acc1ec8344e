"""``ksi extract``: find the calls in a text, with the daemon's own extractor and no daemon."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TextIO

import click
import msgspec

from ksi_client.session import Session, common
from ksi_client.views.extracted import extracted
from ksi_daemon.extraction import PRESETS, Extraction, protocol, to_json
from ksi_daemon.extraction import extract as find_calls

__all__ = ["extract"]


class Line(msgspec.Struct):
    """One line of ``--jsonl``."""

    id: Any
    text: str
    preset: str | None = None
    mode: str | None = None
    stop_reason: str | None = None


@click.command()
@click.argument("file", type=click.File(encoding="utf-8", errors="replace"), default="-")
@click.option(
    "--preset", type=click.Choice(list(PRESETS)), default="ksi", help="How calls are written."
)
@click.option(
    "--mode", type=click.Choice(["strict", "lenient"]), help="Whether repairs are allowed."
)
@click.option("--stop-reason", metavar="NAME", help="Why the reply ended: stop, length.")
@click.option("--jsonl", is_flag=True, help='Read {"id", "text", "preset"?, "mode"?} lines.')
@common
@click.pass_obj
def extract(
    session: Session,
    file: TextIO,
    preset: str,
    mode: str | None,
    stop_reason: str | None,
    jsonl: bool,
) -> None:
    """Find the calls in a text; needs no daemon.

    FILE is a model's reply, - or nothing for stdin. Every block that is a call or looks like one
    is shown where it stands, with its repairs or the reason why it is not usable.
    """
    out = session.output()
    if jsonl:
        for line in _lines(file):
            found = _found(line.text, line.preset or preset, line.mode or mode, line.stop_reason)
            out.value({"id": line.id, **to_json(found)})
        return
    text = file.read()
    found = _found(text, preset, mode, stop_reason)
    out.show(to_json(found), lambda: extracted(text, found, out.paint, out.width))


def _found(text: str, preset: str, mode: str | None, stop_reason: str | None) -> Extraction:
    settings = {"mode": mode} if mode else {}
    return find_calls(text, protocol(preset, **settings), stop_reason=stop_reason)


def _lines(file: TextIO) -> Iterator[Line]:
    for number, text in enumerate(file, start=1):
        if not text.strip():
            continue
        try:
            yield msgspec.json.decode(text, type=Line)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as exc:
            raise click.UsageError(f"line {number}: {exc}") from exc
