"""``ksi components``: what agents are made of; to see it, to check it, to add to it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import click

from ksi_client.blocking import BlockingClient
from ksi_client.completing import component_names
from ksi_client.session import Session, common
from ksi_client.text import visible
from ksi_client.variables import variables_option
from ksi_client.views import components as views
from ksi_daemon.errors import KsiError

__all__ = ["components", "is_asked"]


def _named(context: click.Context, parameter: click.Parameter, word: str) -> str:
    return _without_path(word)


_name: Final = click.argument("name", callback=_named, shell_complete=component_names)


@click.group(invoke_without_command=True)
@common
@click.pass_context
def components(context: click.Context) -> None:
    """List, show, check, add components: the files that agents are made of.

    \b
      ksi components                          what there is
      ksi components inspect agents/writer    its parts, and what it has from each
      ksi components validate                 all that is wrong with any of them
    """
    if context.invoked_subcommand is None:
        context.invoke(list_components)


@components.command("list")
@click.option("--type", "component_type", metavar="TYPE", help="Only agents, behaviors, ...")
@common
@click.pass_obj
def list_components(session: Session, component_type: str | None = None) -> None:
    """List the components; one that cannot be read stands there with the reason."""
    data = {} if component_type is None else {"component_type": component_type}
    with session.client() as client:
        found = client.request("composition:list", data)
    out = session.output()
    rows = [*found["components"], *found["broken"]]
    out.each(rows, lambda: views.listed(rows, out.paint, out.width))


@components.command()
@_name
@click.option("--rendered", is_flag=True, help="The text with all its parts, as an agent gets it.")
@variables_option
@common
@click.pass_obj
def show(session: Session, name: str, rendered: bool, variables: dict[str, str]) -> None:
    """Show a component as its file has it, or with --rendered the prompt that it makes."""
    if variables and not rendered:
        raise click.UsageError("--var-set goes with --rendered")
    event = "composition:render_component" if rendered else "composition:get_component"
    data = {"name": name, **({"variables": variables} if rendered else {})}
    with session.client() as client:
        found = client.request(event, data)
    out = session.output()
    out.show(found, lambda: views.shown(found, out.paint))


@components.command()
@_name
@common
@click.pass_obj
def inspect(session: Session, name: str) -> None:
    """Show the tree of what a component is made of, and where each of its fields is from."""
    with session.client() as client:
        found = client.request("composition:inspect", {"name": name})
    out = session.output()
    out.show(found, lambda: views.inspected(found, out.paint, out.width))


@components.command()
@click.argument("which", nargs=-1, metavar="[NAME|FILE]...", shell_complete=component_names)
@common
@click.pass_obj
def validate(session: Session, which: tuple[str, ...]) -> None:
    """Tell all that is wrong with components: with those named, or with every one.

    A FILE is checked as if it stood beside them. Exit code 1 if anything is wrong.
    """
    with session.client() as client:
        asked = [_checked(each) for each in which] or [{"name": name} for name in _names(client)]
        checked = [client.request("composition:validate", data) for data in asked]
    out = session.output()
    out.each(checked, lambda: views.validated(checked, out.paint, out.width))
    if not all(each["valid"] for each in checked):
        raise SystemExit(1)


@components.command()
@click.argument("name")
@click.argument("file", metavar="FILE|-", type=click.File("rb"))
@click.option("--overwrite", is_flag=True, help="Replace the component of that name.")
@common
@click.pass_obj
def create(session: Session, name: str, file: Any, overwrite: bool) -> None:
    """Put a file among the components, as NAME, and tell what is wrong with it."""
    data = {"name": name, "content": _decoded(file.read()), "overwrite": overwrite}
    with session.client() as client:
        created = client.request("composition:create_component", data)
    out = session.output()
    out.show(created, lambda: views.created(created, out.paint, out.width))


@components.command()
@click.argument("draft", shell_complete=component_names)
@click.option("--to", metavar="NAME", help="The name it gets; by default the one it was given.")
@click.option("--overwrite", is_flag=True, help="Replace the component of that name.")
@click.option("--yes", is_flag=True, help="Do not show it and ask first.")
@common
@click.pass_obj
def promote(session: Session, draft: str, to: str | None, overwrite: bool, yes: bool) -> None:
    """Make a draft that an agent wrote a component that others can use.

    On a terminal the draft is shown first, and what you saw is what is promoted: if the agent
    writes another one meanwhile, that stays a draft.
    """
    out = session.output()
    with session.client() as client:
        found = client.request("composition:get_component", {"name": draft})
        if is_asked() and not out.json and not yes:
            out.lines(views.shown(found, out.paint))
            click.confirm("Promote it?", abort=True)
        data = {"name": draft, "digest": found["digest"], "overwrite": overwrite}
        promoted = client.request("composition:promote", data | ({} if to is None else {"to": to}))
    out.show(promoted, lambda: [f"{visible(promoted['name'])} can be used now"])


def is_asked() -> bool:
    """Say whether there is somebody to ask."""
    return sys.stdin.isatty()


def _names(client: BlockingClient) -> list[str]:
    found = client.request("composition:list", {})
    return sorted(each["name"] for each in (*found["components"], *found["broken"]))


def _checked(which: str) -> dict[str, str]:
    """Return what asks for the check of a component or of a file."""
    path = Path(which)
    if not path.is_file():
        return {"name": _without_path(which)}
    return {"name": which, "content": _decoded(path.read_bytes())}


def _without_path(word: str) -> str:
    """Return the name of a component that was perhaps written as its path in a checkout."""
    return word.removeprefix("components/").removesuffix(".md")


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as exc:
        message = f"the file is not UTF-8: {exc.reason} at byte {exc.start}"
        raise KsiError(message, code="component_invalid") from exc
