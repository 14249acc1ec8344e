"""The messages wire of Anthropic, which llama.cpp's server and some gateways speak too.

Pure: a request into a JSON body, one event of the stream into a ``Delta``. Thinking blocks and
their signatures are kept beside native calls, since the vendor wants them back with the results.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import msgspec

from ksi_daemon.errors import ProviderError
from ksi_daemon.extraction.dialects.base import object_args
from ksi_daemon.providers.failures import error_in_stream, load_json
from ksi_daemon.providers.history import Result, Turn, prepare
from ksi_daemon.providers.http import HttpProvider
from ksi_daemon.providers.model import (
    Capabilities,
    Provider,
    Request,
    StopReason,
    Tool,
    Usage,
)
from ksi_daemon.providers.native_calls import PIECE, sound
from ksi_daemon.providers.retry import Retrying
from ksi_daemon.providers.server import Server, ServerSpec
from ksi_daemon.providers.wire import Delta

__all__ = ["Anthropic", "Blocks", "Spec", "build"]

_HOST: Final = "api.anthropic.com"
_VERSION: Final = "2023-06-01"
# The vendor refuses a request that names no limit. What its models can at most, differs.
_MAX_TOKENS: Final = 8_192

# As in ``openai``: a word that is not here, such as "pause_turn", is no end that we can trust.
_STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
# Where the pieces of each kind of delta belong in the block that it continues.
_CONTINUED: Final[Mapping[str, tuple[str, str]]] = {
    "text_delta": ("text", "text"),
    "input_json_delta": ("partial_json", "input"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
}
_NOT_ID: Final = re.compile(r"[^A-Za-z0-9_-]")
_EPHEMERAL: Final = {"type": "ephemeral"}


class Spec(ServerSpec, frozen=True, kw_only=True, tag_field="type", tag="anthropic"):
    """A server that speaks Anthropic's messages.

    Without *api_key_env* the key of the vendor's own host is ANTHROPIC_API_KEY, and no other host
    gets one. *temperature* and *max_tokens* are for requests that name none. *cache* marks the
    prompt for the vendor's cache. *extra* are fields for each body.
    """

    base_url: str = f"https://{_HOST}/v1"
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] = _MAX_TOKENS
    cache: bool = True


def build(spec: Spec) -> Provider:
    """Return the provider that *spec* describes, with retries and a circuit breaker."""
    return Retrying(HttpProvider(Anthropic(spec)))


class Anthropic(Server):
    """The vendor (``wire.Vendor``) that *spec* describes."""

    name = "anthropic"

    def __init__(self, spec: Spec) -> None:
        own = Capabilities(streaming=True, native_tool_calls=True)
        super().__init__(spec, own, host=_HOST, key_env="ANTHROPIC_API_KEY")
        self._spec = spec

    def url(self, request: Request) -> str:
        """Return the address of the endpoint."""
        return self.base_url.rstrip("/") + "/messages"

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the version that is spoken, and the header that carries *key*."""
        return {"anthropic-version": _VERSION, **({"x-api-key": key} if key else {})}

    def body(self, request: Request) -> dict[str, Any]:
        """Return the JSON body for *request*. What its *extra* holds wins over all else."""
        spec = self._spec
        conversation = prepare(request, "anthropic")
        messages = [_message(turn) for turn in conversation.turns]
        system = [_text_block(conversation.system)] if conversation.system.strip() else []
        if spec.cache:
            _mark(system, [message["content"] for message in messages])
        temperature = spec.temperature if request.temperature is None else request.temperature
        optional = {
            "system": system or None,
            "tools": [_tool(tool) for tool in request.tools] or None,
            "temperature": temperature,
            "stop_sequences": list(request.stop) or None,
        }
        return {
            "model": request.model or self.model,
            "max_tokens": request.max_tokens or spec.max_tokens,
            "messages": messages,
            "stream": True,
            **{name: value for name, value in optional.items() if value is not None},
            **spec.extra,
            **request.extra,
        }

    def read(self, data: str) -> Delta:
        """Return what *data* adds: an event of the stream, or a whole message."""
        value = load_json(self.name, data)
        if (error := _error(value)) is not None:
            raise error_in_stream(self.name, error)
        return _delta(_event(value))

    def calls(self) -> Blocks:
        """Return what puts the blocks of one reply together."""
        return Blocks()


class _Block(msgspec.Struct):
    type: str = ""
    text: str | None = None


class _Change(msgspec.Struct):
    """What goes on: a block, or at the end the message itself."""

    type: str = ""
    text: str | None = None
    stop_reason: str | None = None


class _Counts(msgspec.Struct):
    """Tokens. What was read from the cache or written to it is no part of *input_tokens*."""

    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None

    def usage(self) -> Usage:
        asked = (
            self.input_tokens,
            self.cache_creation_input_tokens,
            self.cache_read_input_tokens,
        )
        return Usage(
            sum(count or 0 for count in asked),
            self.output_tokens or 0,
            self.cache_read_input_tokens or 0,
        )


class _Message(msgspec.Struct):
    model: str | None = None
    content: list[dict[str, Any]] | None = None
    stop_reason: str | None = None
    usage: _Counts | None = None


class _Event(msgspec.Struct):
    """An event of the stream, or a message: one that does not stream is one without *message*."""

    type: str
    index: int | None = None
    message: _Message | None = None
    content_block: dict[str, Any] | None = None
    delta: dict[str, Any] | None = None
    usage: _Counts | None = None
    model: str | None = None
    content: list[dict[str, Any]] | None = None
    stop_reason: str | None = None


class Blocks:
    """The content blocks of one message, while they arrive (``native_calls.Pieces``).

    A piece is an event that starts or continues a block, or a whole block without an index.
    """

    def __init__(self) -> None:
        self._blocks: list[dict[str, Any]] = []
        self._grown: list[dict[str, list[str]]] = []
        self._by_index: dict[int, int] = {}

    def add(self, piece: Any) -> int:
        """Take *piece* and return about how many bytes of memory that takes."""
        index, delta = piece.get("index"), piece.get("delta")
        if delta is None:
            block = piece["content_block"]
            if index is not None:
                self._by_index[index] = len(self._blocks)
            self._blocks.append(block)
            self._grown.append({})
            return PIECE + (0 if block.get("type") == "text" else len(str(block)))
        at = self._by_index.get(index)
        source, field = _CONTINUED.get(delta.get("type"), ("", ""))
        text = delta.get(source)
        if at is None or not isinstance(text, str):
            return 0
        self._grown[at].setdefault(field, []).append(text)
        # The text of a reply is counted where it is kept as text.
        return 0 if field == "text" else PIECE + len(text)

    def message(self, text: str) -> dict[str, Any] | None:
        """Return the message of the assistant, None if none of its blocks is a call."""
        if not any(block.get("type") == "tool_use" for block in self._blocks):
            return None
        blocks = [
            sound(_grown(block, grown))
            for block, grown in zip(self._blocks, self._grown, strict=True)
        ]
        return {"role": "assistant", "content": [b for b in blocks if b and not _is_blank(b)]}


def _grown(block: dict[str, Any], grown: dict[str, list[str]]) -> dict[str, Any]:
    """Return *block* with what came after its start; arguments stay JSON text, whole or not."""
    longer: dict[str, Any] = {
        field: "".join(pieces) if field == "input" else f"{block.get(field) or ''}{''.join(pieces)}"
        for field, pieces in grown.items()
    }
    if "input" in longer and block.get("type") != "tool_use":
        # A call that the vendor runs itself goes back as it should have come.
        longer["input"] = _object(longer["input"])
    return {**block, **longer}


def _object(text: str) -> dict[str, Any]:
    found = object_args(text, "input", strict=False)
    return found if isinstance(found, dict) else {}


def _is_blank(block: dict[str, Any]) -> bool:
    """Say whether *block* is text that is none: the vendor refuses it in a history."""
    return block.get("type") == "text" and not str(block.get("text", "")).strip()


def _error(value: Any) -> Any:
    """Return the error that *value* is or holds, None if it is none.

    The vendor puts it into an event of its own, llama.cpp's server writes it bare.
    """
    fields = value if isinstance(value, dict) else {}
    if fields.get("error") is not None:
        return fields["error"]
    is_bare = isinstance(fields.get("code"), int) and isinstance(fields.get("message"), str)
    return fields if is_bare else None


def _event(value: Any) -> _Event:
    try:
        return msgspec.convert(value, _Event)
    except msgspec.ValidationError as exc:
        raise ProviderError(
            f"anthropic answered JSON that is no message: {exc}", code="provider_protocol"
        ) from exc


def _delta(event: _Event) -> Delta:
    change = event.delta or {}
    if event.type == "message":
        return _whole(event)
    if event.type == "message_start" and event.message is not None:
        usage = (event.message.usage or _Counts()).usage()
        return Delta(model=event.message.model, usage=usage)
    if event.type == "content_block_start" and event.content_block is not None:
        return _started(event.index, event.content_block)
    if event.type == "content_block_delta":
        piece = {"index": event.index, "delta": change}
        source, field = _CONTINUED.get(_str(change.get("type")), ("", ""))
        said = _str(change.get(source))
        text = said if field == "text" else ""
        return Delta(text=text, thinking=bool(said and not text), tool_calls=(piece,))
    if event.type == "message_delta":
        finish = _str(change.get("stop_reason")) or None
        usage = (event.usage or _Counts()).usage()
        return Delta(finish=finish, stop_reason=_STOP_REASONS.get(finish or ""), usage=usage)
    # "ping", "content_block_stop", and what the vendor says that it may add.
    return Delta(last=event.type == "message_stop")


def _started(index: int | None, block: dict[str, Any]) -> Delta:
    piece = {"index": index, "content_block": block}
    text = _str(block.get("text")) if block.get("type") == "text" else ""
    return Delta(text=text, thinking=block.get("type") != "text", tool_calls=(piece,))


def _whole(event: _Event) -> Delta:
    blocks = event.content or []
    return Delta(
        text="".join(_str(block.get("text")) for block in blocks if block.get("type") == "text"),
        tool_calls=tuple({"content_block": block} for block in blocks),
        finish=event.stop_reason,
        stop_reason=_STOP_REASONS.get(event.stop_reason or ""),
        model=event.model,
        usage=(event.usage or _Counts()).usage(),
    )


def _str(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _message(turn: Turn) -> dict[str, Any]:
    if turn.native is not None:
        return {"role": "assistant", "content": list(turn.native["content"])}
    return {"role": turn.role, "content": list(_blocks(turn))}


def _blocks(turn: Turn) -> Iterator[dict[str, Any]]:
    yield from (_result(result) for result in turn.results)
    if turn.text.strip():
        yield _text_block(turn.text)
    yield from (
        {"type": "tool_use", "id": _id(call.id), "name": call.name, "input": call.args}
        for call in turn.calls
    )


def _result(result: Result) -> dict[str, Any]:
    call_id = _id(result.call.id) if result.call is not None else ""
    block = {"type": "tool_result", "tool_use_id": call_id, "content": result.content}
    return {**block, "is_error": True} if result.is_error else block


def _id(given: str) -> str:
    """Return *given* as the vendor accepts it: other vendors put more into their ids."""
    return _NOT_ID.sub("_", given)


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _tool(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": dict(tool.schema),
    }


def _mark(system: list[dict[str, Any]], contents: list[list[dict[str, Any]]]) -> None:
    """Mark where what the next request will repeat ends: at the system prompt, and so far."""
    for blocks in (system, *contents[-1:]):
        if blocks:
            blocks[-1] = {**blocks[-1], "cache_control": _EPHEMERAL}
