"""``--var-set NAME=TEXT``: the variables of a component, as commands take them."""

from __future__ import annotations

from typing import Any, Final

import click

__all__ = ["variables_option"]


def _pairs(context: click.Context, parameter: click.Parameter, words: Any) -> dict[str, str]:
    return dict(map(_pair, words))


def _pair(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--var-set takes NAME=TEXT, not {word!r}")
    return name, value


# The command gets them as the dict *variables*.
variables_option: Final = click.option(
    "--var-set",
    "variables",
    multiple=True,
    callback=_pairs,
    metavar="NAME=TEXT",
    help="A variable; repeatable.",
)
