"""``ksi attempts``: calls of agents that went wrong, and what a person does about them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from ksi_client.blocking import BlockingClient
from ksi_client.completing import agent_ids
from ksi_client.session import Session, common
from ksi_client.times import parse_time
from ksi_client.views import attempts as views

if TYPE_CHECKING:
    from ksi_client.mending import Mended

__all__ = ["attempts"]

KINDS: Final = ("rejected", "held", "invalid", "unknown", "denied", "failed")
REJECTED: Final = "extraction:rejected"
STATES: Final = ("open", "resolved", "dismissed", "all")


class Number(click.ParamType[int]):
    """The seq of an attempt; it may be written as the log shows it, ``#42``."""

    name = "seq"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).removeprefix("#")
        if not text.isascii() or not text.isdecimal() or len(text) > 18:
            self.fail(f"{value!r} is no number of an attempt", param, ctx)
        return int(text)


NUMBER: Final = Number()


@click.group(invoke_without_command=True)
@click.option("--agent", "agent_id", metavar="ID", help="Of this agent.", shell_complete=agent_ids)
@click.option("--model", metavar="NAME", help="Of this model.")
@click.option("--code", metavar="CODE", help="With this error: malformed_block, denied, quoted.")
@click.option("--kind", type=click.Choice(KINDS), help="Of this kind; held ones only so.")
@click.option("--state", type=click.Choice(STATES), default="open", help="In this state (open).")
@click.option("--since", metavar="TIME", callback=parse_time, help="Since then, or 2h ago.")
@click.option("--until", metavar="TIME", callback=parse_time, help="Before.")
@click.option(
    "--before", "before_seq", type=click.IntRange(1), metavar="SEQ", help="The page before."
)
@click.option("-n", "--limit", type=click.IntRange(1, 1_000), default=50, help="How many (50).")
@common
@click.pass_context
def attempts(context: click.Context, /, state: str, **given: Any) -> None:
    """List the calls of agents that went wrong, the newest first; see one, mend it.

    \b
      ksi attempts                        what is open
      ksi attempts --state all --agent ada
      ksi attempts show 42                its text, what was wrong, what the agent was told
      ksi attempts fix 42 --edit          mend the text, and have the call run, once
      ksi attempts fix 42 --as '{"event": "state:set", "data": {"key": "k", "value": 1}}'
      ksi attempts fix 42 --again         the same call, when what it needs is there again
      ksi attempts fix 42 --dismiss --reason 'a quotation'
    """
    if context.invoked_subcommand is not None:
        return
    session: Session = context.obj
    wanted = {name: value for name, value in given.items() if value is not None}
    if state != "all":
        wanted["state"] = state
    with session.client() as client:
        found = client.request("monitor:attempts", wanted)
    out, listed = session.output(), found["attempts"]
    out.each(listed, lambda: views.listed(listed, found["counts"], out.paint, out.width))


@attempts.command()
@click.argument("attempt", type=NUMBER, metavar="SEQ")
@common
@click.pass_obj
def show(session: Session, attempt: int) -> None:
    """Show one: its text in its reply, what was wrong, what was said and done."""
    with session.client() as client:
        found = _found(client, attempt)
    out = session.output()
    out.show(found, lambda: views.shown(found, out.paint, out.width))


@attempts.command()
@click.argument("attempt", type=NUMBER, metavar="SEQ")
@click.option("--edit", is_flag=True, help="Mend its text in an editor, then submit what it says.")
@click.option("--as", "instead", metavar="JSON", help='Submit {"event", "data"}; - reads stdin.')
@click.option("--again", is_flag=True, help="Submit the call as the agent wrote it.")
@click.option("--dismiss", is_flag=True, help="Put it aside: nothing is to be done.")
@click.option("--reason", default="", metavar="TEXT", help="Why it is put aside.")
@click.option("--force", is_flag=True, help="Also if it was denied, or made good already.")
@common
@click.pass_obj
def fix(
    session: Session,
    attempt: int,
    edit: bool,
    instead: str | None,
    again: bool,
    dismiss: bool,
    reason: str,
    force: bool,
) -> None:
    """Have a call run in place of one that went wrong, once, or put it aside.

    It runs in your name and with your rights, and its cause is the attempt.
    """
    if [edit, instead is not None, again, dismiss].count(True) != 1:
        raise click.UsageError("say one of --edit, --as, --again, --dismiss")
    if reason and not dismiss:
        raise click.UsageError("--reason goes with --dismiss")
    out = session.output()
    with session.client() as client:
        if dismiss:
            asked: dict[str, Any] = {"attempt": attempt, "reason": reason}
            done = client.request("monitor:dismiss_attempt", asked)
            out.show(done, lambda: [f"dismissed attempt #{attempt}"])
            return
        mended = _instead(client, attempt, instead, edit=edit)
        asked = {"attempt": attempt, "force": force}
        if mended is not None:
            asked |= {"event": mended.event, "data": mended.data}
        ended = client.request("monitor:retry_attempt", asked)
    out.show(ended, lambda: views.fixed(ended, out.paint, out.width))
    if ended.get("error"):
        raise click.exceptions.Exit(1)


def _found(client: BlockingClient, attempt: int) -> dict[str, Any]:
    found: list[dict[str, Any]] = client.request("monitor:attempts", {"attempt": attempt})[
        "attempts"
    ]
    return found[0]


def _instead(
    client: BlockingClient, attempt: int, instead: str | None, *, edit: bool
) -> Mended | None:
    """Return the call to submit, None for the event that the attempt became."""
    found = _found(client, attempt) if instead is None else {}
    if instead is None and not edit and found["event"] != REJECTED:
        return None
    # The extractor doubles the start of a command, and few of these need it.
    from ksi_client.mending import read_call, read_mended, to_edit

    if instead is not None:
        return read_call(sys.stdin.read() if instead == "-" else instead)
    if not edit:
        # What was held or refused for something else reads as a call.
        return read_mended(found["text"], found["dialect"])
    given = to_edit(found)
    edited = click.edit(given, extension=".txt")
    # Editors end the last line; who changes nothing gives up.
    left = edited is None or edited.rstrip() == given.rstrip()
    mended = None if left else read_mended(str(edited), found["dialect"])
    if mended is None:
        click.echo("nothing was submitted", err=True)
        raise click.exceptions.Exit(1)
    return mended
