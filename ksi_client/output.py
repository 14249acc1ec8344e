"""Where results go: tables and sentences for people, JSON lines for programs.

The one place that decides which. A command hands over the value and how it reads; what is asked
for (``--json``, ``--text``), else whether stdout is a terminal, chooses.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TextIO

import click
import msgspec

from ksi_client.text import Paint, visible, visible_json
from ksi_daemon.errors import KsiError

__all__ = ["Lines", "Output", "complain"]

Lines = Iterable[str]

_encode: Final = msgspec.json.Encoder().encode


class Output:
    """How to write for whoever reads stdout.

    *json*: values, one a line; otherwise text, in *width* cells and with the colours of *paint*.
    """

    def __init__(self, *, json: bool, paint: Paint, width: int) -> None:
        self.json = json
        self.paint = paint
        self.width = width

    @classmethod
    def to_stdout(
        cls, json: bool | None = None, environ: Mapping[str, str] | None = None
    ) -> Output:
        """Return the output for stdout; *json* None leaves the form to what stdout is."""
        terminal = sys.stdout.isatty()
        return cls(
            json=not terminal if json is None else json,
            paint=Paint(wants_color(sys.stdout, os.environ if environ is None else environ)),
            width=max(40, shutil.get_terminal_size((100, 24)).columns),
        )

    def show(self, value: object, text: Callable[[], Lines]) -> None:
        """Write *value* as one JSON line, or the lines of *text*."""
        if self.json:
            self.value(value)
        else:
            self.lines(text())

    def each(self, values: Iterable[object], text: Callable[[], Lines]) -> None:
        """Write each of *values* as a JSON line, or the lines of *text*."""
        if self.json:
            for value in values:
                self.value(value)
        else:
            self.lines(text())

    def value(self, value: object) -> None:
        """Write *value* as a JSON line, whatever the form is."""
        click.echo(visible_json(_encode(value).decode()))

    def write(self, text: str) -> None:
        """Write a part of a text at once; as with ``lines``, its view made it ``visible``."""
        click.echo(text, nl=False, color=self.paint.enabled)

    def lines(self, lines: Lines) -> None:
        """Write text; whatever of it is not ours was made ``visible`` by its view."""
        for line in lines:
            click.echo(line, color=self.paint.enabled)


def wants_color(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Say whether *stream* gets colours: a terminal that is not dumb does, or any with FORCE_COLOR
    set, but none with NO_COLOR. A variable that is empty is not set."""
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and environ.get("TERM") != "dumb"


def complain(error: KsiError) -> None:
    """Write *error* to stderr: its code, what happened, what to do."""
    paint = Paint(wants_color(sys.stderr, os.environ))
    message = visible(error.message, lines=True)
    click.echo(f"{paint(f'error {error.code}:', 'red', 'bold')} {message}", err=True)
    if error.hint:
        click.echo(f"{paint('hint:', 'cyan')} {visible(error.hint, lines=True)}", err=True)
