"""``ksi protocol compare``: which way of writing calls fits what a model writes; no daemon."""

from __future__ import annotations

from typing import BinaryIO, Final

import click

from ksi_client.comparing import Reply, compared, read_replies
from ksi_client.session import Session, common
from ksi_client.tools import read_tools, schemas_of
from ksi_client.views import compared as views
from ksi_daemon.extraction import PRESETS

__all__ = ["protocol"]

FILE: Final = click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True)


@click.group()
@common
def protocol() -> None:
    """Compare the ways in which calls are written."""


@protocol.command()
@click.argument("files", metavar="FILE|-...", nargs=-1, required=True, type=FILE)
@click.option(
    "--preset",
    "presets",
    metavar="NAME",
    multiple=True,
    type=click.Choice(list(PRESETS)),
    help="Only this one; repeatable.",
)
@click.option(
    "--tools", type=click.File("rb"), metavar="FILE", help="JSON Schemas of the tools, - for stdin."
)
@common
@click.pass_obj
def compare(
    session: Session, files: tuple[str, ...], presets: tuple[str, ...], tools: BinaryIO | None
) -> None:
    """Read the same replies with every preset, side by side; needs no daemon.

    FILE is a provider object of type scripted, its array of replies, a .jsonl of {"text"} lines,
    or else one reply as it is.

    \b
      ksi protocol compare replies.json
      ksi protocol compare *.txt --preset ksi --preset any
    """
    replies = [reply for name in files for reply in _replies(name)]
    known = schemas_of(read_tools(tools.read())) if tools else None
    readings = compared(replies, presets or tuple(PRESETS), known)
    out = session.output()
    out.each(
        (each.as_json() for each in readings),
        lambda: views.compared(readings, out.paint, out.width),
    )


def _replies(name: str) -> list[Reply]:
    with click.open_file(name, "rb") as file:
        return read_replies(file.read(), "stdin" if name == "-" else name)
