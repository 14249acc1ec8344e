"""``ksi chat``: a person talks to an agent, and sees what it says and does as it happens."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click

from ksi_client.client import Client, connect
from ksi_client.completing import agent_ids
from ksi_client.errors import DaemonError
from ksi_client.output import Output, complain
from ksi_client.session import Session, common
from ksi_client.text import visible
from ksi_client.views.chat import Talk
from ksi_daemon.errors import KsiError
from ksi_daemon.extraction import Protocol, protocol

__all__ = ["chat"]

PROMPT: Final = "> "
HISTORY_LINES: Final = 1_000
# The answer is there; what led to it is on its way over the other connection.
REST_S: Final = 5.0


@click.command()
@click.argument("agent", shell_complete=agent_ids)
@common
@click.pass_obj
def chat(session: Session, agent: str) -> None:
    """Talk to an agent; see its text as it comes and its calls as they end.

    Each line is a message. Ctrl-C cancels what the agent is at and not the agent; Ctrl-D leaves.
    Piped, each line of stdin is a message and each answer a line of JSON, or text with --text.
    """
    person = sys.stdin.isatty() and sys.stdout.isatty()
    with session.client() as client:
        info = client.request("agent:info", {"agent_id": agent})
    conversation = _Conversation(session, agent, _read_as(info["protocol"]), person=person)
    if person:
        name = conversation.out.paint(visible(agent), "cyan")
        conversation.out.lines([f"{name} listens; Ctrl-C cancels, Ctrl-D leaves"])
    with asyncio.Runner() as runner:
        for message in _typed(session.var_path / "run" / "chat_history") if person else _lines():
            conversation.say(runner, message)
    if conversation.failed and not person:
        raise click.exceptions.Exit(1)


class _Conversation:
    """A person's exchanges with one agent; *failed* if one of them broke off."""

    def __init__(self, session: Session, agent_id: str, read_as: Protocol, *, person: bool) -> None:
        self.out: Output = session.output()
        self.failed = False
        self._session = session
        self._agent_id = agent_id
        self._read_as = read_as
        self._person = person

    def say(self, runner: asyncio.Runner, message: str) -> None:
        """Send *message* and show the exchange until it ends or is interrupted."""
        story = os.urandom(16).hex()
        talk = Talk(self._agent_id, story, self._read_as, self.out.paint, self.out.width)
        try:
            answer = runner.run(self._exchange(talk, story, message))
        except KeyboardInterrupt:
            self._cancel(talk)
            if not self._person:
                raise
        except DaemonError as exc:
            complain(exc)
            self.failed = True
        else:
            self.failed |= bool(answer.get("error"))
            self._write(talk.end(answer))
            if self.out.json:
                self.out.value(answer)

    async def _exchange(self, talk: Talk, story: str, message: str) -> dict[str, Any]:
        data = {"agent_id": self._agent_id, "message": message, "wait": True}
        heard = asyncio.Event()
        try:
            async with connect(self._session.socket_path) as client, asyncio.TaskGroup() as tasks:
                listener = tasks.create_task(self._listen(client, talk, heard))
                await heard.wait()
                answer: dict[str, Any] = await client.request(
                    "agent:send", data, correlation_id=story
                )
                await self._hear_the_rest(client, talk, heard)
                listener.cancel()
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        return answer

    async def _listen(self, client: Client, talk: Talk, heard: asyncio.Event) -> None:
        try:
            with suppress(KsiError):  # the request hears of it too
                async for push in client.subscribe(
                    "*", include=["outcomes", "text"], on_begun=heard.set
                ):
                    self._write(talk.take(push))
                    heard.set()
        finally:
            heard.set()

    async def _hear_the_rest(self, client: Client, talk: Talk, heard: asyncio.Event) -> None:
        last = (await client.request("system:health"))["last_seq"]
        with suppress(TimeoutError):
            async with asyncio.timeout(REST_S):
                while talk.seen < last:
                    heard.clear()
                    await heard.wait()

    def _cancel(self, talk: Talk) -> None:
        """Cancel the exchange if the agent is at it; what others asked of the agent goes on."""
        with self._session.client() as client:
            running = client.request("completion:status")["running"]
            ours = {"agent_id": self._agent_id, "request_id": talk.request_id}
            if any(ours.items() <= each.items() for each in running):
                client.request("agent:cancel", {"agent_id": self._agent_id})
                said = "cancelled"
            else:
                said = "the agent is not at it; what it has not begun stays in its mailbox"
        click.echo(f"\n{said}", err=True)

    def _write(self, text: str) -> None:
        if text and not self.out.json:
            self.out.write(text)


def _read_as(told: str | dict[str, Any]) -> Protocol:
    """Return how the replies of an agent with the protocol *told* are read."""
    settings: dict[str, Any] = {"preset": told} if isinstance(told, str) else dict(told)
    preset = settings.pop("preset", "ksi")
    known = {name: settings[name] for name in Protocol.__struct_fields__ if name in settings}
    return protocol(preset, **known)


def _lines() -> Iterator[str]:
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            text = line.decode().rstrip("\r\n")
        except UnicodeDecodeError as exc:
            raise KsiError(f"line {number} is not UTF-8: {exc.reason}", code="not_utf8") from exc
        if text.strip():
            yield text


def _typed(history: Path) -> Iterator[str]:
    """Yield the lines that a person types, with the history of earlier ones in the file."""
    import readline

    with suppress(OSError):
        readline.read_history_file(history)
    readline.set_history_length(HISTORY_LINES)
    try:
        while True:
            try:
                line = input(PROMPT)
            except KeyboardInterrupt:
                click.echo()
                continue
            if line.strip():
                yield line.encode("utf-8", "replace").decode()
    except EOFError:
        click.echo()
    finally:
        with suppress(OSError):
            readline.write_history_file(history)
            history.chmod(0o600)
