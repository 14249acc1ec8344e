"""``ksi spawn``, ``send``, ``agents``, ``terminate``: agents and what they are told."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from ksi_client.completing import agent_ids, component_names
from ksi_client.session import Session, common
from ksi_client.text import Paint, visible
from ksi_client.variables import variables_option
from ksi_client.views import reports
from ksi_client.views.tables import pairs

__all__ = ["agents", "send", "spawn", "terminate"]


@click.command()
@click.argument("component", metavar="COMPONENT|FILE|-", shell_complete=component_names)
@click.option("--prompt", metavar="TEXT", help="The agent's first message.")
@click.option("--no-wait", is_flag=True, help="Do not wait for the answer to the prompt.")
@click.option("--id", "agent_id", metavar="ID", help="The agent's id; by default from its name.")
@click.option("--provider", metavar="NAME|JSON", help="Who completes: a name or an object.")
@click.option("--model", metavar="NAME", help="The model.")
@click.option(
    "--protocol", metavar="NAME|JSON", help="How calls are written: a preset or an object."
)
@click.option("--profile", metavar="NAME", help="The profile of what it may do.")
@click.option(
    "--allow",
    multiple=True,
    metavar="PATTERN|JSON",
    help="An event it may emit, or a right with conditions; repeatable.",
)
@variables_option
@common
@click.pass_obj
def spawn(
    session: Session,
    /,
    component: str,
    prompt: str | None,
    no_wait: bool,
    provider: str | None,
    protocol: str | None,
    allow: tuple[str, ...],
    variables: dict[str, str],
    **given: str | None,
) -> None:
    """Bring an agent to life.

    COMPONENT is the name of a component or a file; - reads the system prompt from stdin. With
    --prompt the agent's answer is shown as ksi send shows it.
    """
    fields = {
        **_source(component),
        **given,
        "provider": _name_or_object(provider),
        "protocol": _name_or_object(protocol),
        "allow": [_name_or_object(each) for each in allow] or None,
        "variables": variables or None,
        "prompt": prompt if no_wait else None,
    }
    with session.client() as client:
        spawned = client.request("agent:spawn", _without_none(fields))
        out = session.output()
        waits = prompt is not None and not no_wait
        if not (waits and out.json):
            out.show(spawned, lambda: _lives(spawned, out.paint))
        if waits:
            message = {"agent_id": spawned["agent_id"], "message": prompt, "wait": True}
            answer = client.request("agent:send", message)
            out.show(
                spawned | {"answer": answer},
                lambda: reports.answer(answer, out.paint, out.width),
            )
            _fail_with(answer)


@click.command()
@click.argument("agent", shell_complete=agent_ids)
@click.argument("message", metavar="MESSAGE|-")
@click.option("--no-wait", is_flag=True, help="Do not wait for the answer.")
@click.option("--untrusted", is_flag=True, help="The message quotes a document or a stranger.")
@click.option("--timeout", type=float, metavar="SECONDS", help="How long to wait for the answer.")
@common
@click.pass_obj
def send(
    session: Session,
    agent: str,
    message: str,
    no_wait: bool,
    untrusted: bool,
    timeout: float | None,
) -> None:
    """Give an agent a message and show its answer, then what it called.

    - reads the message from stdin.
    """
    text = sys.stdin.read() if message == "-" else message
    data = {"agent_id": agent, "message": text, "wait": not no_wait, "untrusted": untrusted}
    with session.client() as client:
        reply = client.request("agent:send", data, timeout=timeout)
    out = session.output()
    if no_wait:
        out.show(reply, lambda: [f"sent as {visible(reply['request_id'])}"])
    else:
        out.show(reply, lambda: reports.answer(reply, out.paint, out.width))
        _fail_with(reply)


@click.command()
@click.argument("agent_id", required=False, shell_complete=agent_ids)
@common
@click.pass_obj
def agents(session: Session, agent_id: str | None) -> None:
    """List the agents that live; or show all about one, also what it has cost."""
    out = session.output()
    with session.client() as client:
        if agent_id is not None:
            info = client.request("agent:info", {"agent_id": agent_id})
            out.show(info, lambda: pairs(info, paint=out.paint))
            return
        listed = client.request("agent:list")["agents"]
    out.each(listed, lambda: reports.agents(listed, out.paint, out.width))


@click.command()
@click.argument("which", nargs=-1, required=True, metavar="ID|PATTERN...", shell_complete=agent_ids)
@click.option("--dry-run", is_flag=True, help="Only show which.")
@common
@click.pass_obj
def terminate(session: Session, which: tuple[str, ...], dry_run: bool) -> None:
    """End agents for good, by id or by pattern: ksi terminate greeter 'worker-*'."""
    ids = [each for each in which if "*" not in each]
    asked: list[dict[str, Any]] = [{"pattern": each} for each in which if "*" in each]
    if ids:
        asked.insert(0, {"agent_ids": ids})
    ended: list[str] = []
    with session.client() as client:
        for data in asked:
            ended += client.request("agent:terminate", {**data, "dry_run": dry_run})["terminated"]
    out = session.output()
    verb = "would end" if dry_run else "ended"
    chosen = list(dict.fromkeys(ended))
    out.show(
        {"terminated": chosen, "dry_run": dry_run},
        lambda: [f"{verb} {visible(each)}" for each in chosen] or ["no agent matches"],
    )


def _fail_with(answer: dict[str, Any]) -> None:
    """Exit with 1 if the exchange broke off: no model answered, or nothing could be logged."""
    if answer.get("error"):
        raise SystemExit(1)


def _lives(spawned: Mapping[str, Any], paint: Paint) -> Iterator[str]:
    yield f"{paint(visible(spawned['agent_id']), 'cyan')} lives"
    if spawned.get("note"):
        yield paint(visible(spawned["note"]), "dim")


def _source(component: str) -> dict[str, str]:
    """Return the fields that say what the agent is made of."""
    if component == "-":
        return {"system": sys.stdin.read()}
    # The daemon may live in another directory.
    path = Path(component)
    return {"component": str(path.absolute()) if path.is_file() else component}


def _name_or_object(text: str | None) -> Any:
    if text is None or not text.lstrip().startswith("{"):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as exc:
        raise click.UsageError(f"{text!r} is no JSON: {exc}") from exc


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
