"""One completion without an agent: a model is asked once, and what it calls is told and not run.

For sessions outside of the daemon that bring their own tools, and to try a model or a protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from ksi_daemon import extraction
from ksi_daemon.conversation import Manner, manner_of
from ksi_daemon.errors import InvalidData
from ksi_daemon.extraction import Tool
from ksi_daemon.extraction.schemas import flaw
from ksi_daemon.log import statements
from ksi_daemon.loop import agreement
from ksi_daemon.providers.model import Completion, Message, Price, Provider, priced
from ksi_daemon.router import Context, Submission, new_id
from ksi_daemon.security import SYSTEM
from ksi_daemon.services.completions.blocks import Reading, read
from ksi_daemon.services.completions.records import completion_data, completion_row
from ksi_daemon.services.completions.wire import Wire

__all__ = ["Ask", "Making", "Said", "check", "complete"]

# Makes the provider that a name or an object means, None the daemon's own.
Making = Callable[[str | dict[str, Any] | None], Provider]


class Said(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of a conversation; one of role tool is the result of the tool *name*."""

    role: Literal["user", "assistant", "tool"]
    content: str
    name: str | None = None
    call_id: str | None = None
    is_error: bool = False


class Ask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a model is asked: *prompt*, or a whole conversation as *messages*.

    *provider* is a provider object or the name of its type, *protocol* a preset or an object of
    settings. *tools* are told to the model, in the prompt or natively as the protocol says.
    """

    prompt: str | None = None
    messages: tuple[Said, ...] = ()
    system: str = ""
    provider: str | dict[str, Any] | None = None
    model: str | None = None
    protocol: str | dict[str, Any] = "ksi"
    tools: tuple[Tool, ...] = ()


def check(ask: Ask) -> None:
    """Raise KsiError for what cannot be asked."""
    if (ask.prompt is None) == (not ask.messages):
        raise InvalidData("give either prompt or messages", details={"path": "prompt"})
    agreement(ask.protocol)
    for number, tool in enumerate(ask.tools):
        wrong = flaw(tool.schema)
        if wrong is not None:
            details = {"path": f"tools[{number}].schema"}
            raise InvalidData(f"the schema of {tool.name!r}: {wrong}", details=details)


async def complete(
    ask: Ask, provider: Provider, price: Price | None, ctx: Context
) -> dict[str, Any]:
    """Ask *provider* and log the completion; return what it said and what is in it."""
    manner = manner_of(
        agreement(ask.protocol),
        ask.system,
        ask.tools,
        provider.capabilities,
        max_calls=extraction.protocol("ksi").max_calls,
    )
    wire = Wire(manner, provider.capabilities)
    request = wire.request(manner, _conversation(ask), ask.model)
    completion = priced(await provider.complete(request), price)
    completion_id = new_id()
    reading = await read(completion, completion_id, manner)
    await _log(completion_id, ctx, manner, provider, completion, reading)
    return _told(completion_id, completion, reading)


def _conversation(ask: Ask) -> list[Message]:
    if ask.prompt is not None:
        return [Message("user", ask.prompt)]
    return [
        Message(each.role, each.content, each.name, each.call_id, each.is_error)
        for each in ask.messages
    ]


async def _log(
    completion_id: str,
    ctx: Context,
    manner: Manner,
    provider: Provider,
    completion: Completion,
    reading: Reading,
) -> None:
    data = completion_data(1, provider, completion, reading.extraction)
    row = completion_row(
        completion_id, None, provider, ctx.event.id, 1, manner.protocol.name, completion
    )
    submitted = await ctx.router.submit(
        Submission(
            event="completion:result",
            data=msgspec.Raw(msgspec.json.encode({"request_id": ctx.event.id, **data})),
            principal=SYSTEM,
            cause=ctx.event,
            event_id=completion_id,
            completion_id=completion_id,
            # Nothing of it runs, so after a crash there is nothing to make good.
            statements=(row, statements.completion_done(completion_id)),
        )
    )
    submitted.result()


def _told(completion_id: str, completion: Completion, reading: Reading) -> dict[str, Any]:
    found = reading.extraction
    if completion.stop_reason is None:
        # The stream broke off: what looks whole may be the inside of something else.
        found = extraction.Extraction(completion.text)
    return {
        "completion_id": completion_id,
        "text": completion.text,
        "stop_reason": completion.stop_reason,
        "model": completion.model,
        "usage": completion.usage,
        "usd": completion.usd,
        **({"incomplete": completion.incomplete} if completion.incomplete else {}),
        **extraction.to_json(found),
        "corrections": extraction.corrections(found.rejected) or None,
    }
