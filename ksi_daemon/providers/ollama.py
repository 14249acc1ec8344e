"""Ollama's own wire: /api/chat, a line of JSON for each piece.

Beside its chat completions (type ``openai``) it can set the length of the context, without which
Ollama cuts the beginning off a longer conversation and says nothing. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import msgspec

from ksi_daemon.errors import ProviderError
from ksi_daemon.providers.failures import error_in_stream, load_json
from ksi_daemon.providers.history import Asked, Conversation, Result, prepare
from ksi_daemon.providers.http import HttpProvider
from ksi_daemon.providers.model import (
    Capabilities,
    Provider,
    Request,
    StopReason,
    Usage,
)
from ksi_daemon.providers.native_calls import NativeCalls
from ksi_daemon.providers.openai import chat_tool
from ksi_daemon.providers.retry import Retrying
from ksi_daemon.providers.server import Server, ServerSpec
from ksi_daemon.providers.wire import Delta

__all__ = ["Ollama", "Spec", "build"]

# As in ``openai``. "load" and "unload" say that the model was loaded and nothing was asked.
_STOP_REASONS: Final[Mapping[str, StopReason]] = {"stop": "stop", "length": "length"}


class Spec(ServerSpec, frozen=True, kw_only=True, tag_field="type", tag="ollama"):
    """An Ollama server, by default the one on this machine.

    *context_tokens* is the length of the context that the model is loaded with. *temperature* and
    *max_tokens* are for requests that name none. *extra* are fields for each body.
    """

    base_url: str = "http://127.0.0.1:11434"
    context_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None


def build(spec: Spec) -> Provider:
    """Return the provider that *spec* describes, with retries and a circuit breaker."""
    return Retrying(HttpProvider(Ollama(spec)))


class Ollama(Server):
    """The vendor (``wire.Vendor``) that *spec* describes.

    Which of its models do native calls it does not say before it is asked, and a model without
    them refuses a request with tools: that it can is for *capabilities* to say.
    """

    name = "ollama"

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec, Capabilities(streaming=True))
        self._spec = spec

    def url(self, request: Request) -> str:
        """Return the address of the endpoint; an address that ends in /api is understood."""
        return self.base_url.rstrip("/").removesuffix("/api") + "/api/chat"

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the header that carries *key*."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def body(self, request: Request) -> dict[str, Any]:
        """Return the JSON body for *request*. What its *extra* holds wins over all else."""
        spec = self._spec
        options = {
            "temperature": _first(request.temperature, spec.temperature),
            "num_predict": _first(request.max_tokens, spec.max_tokens),
            "num_ctx": spec.context_tokens,
            "stop": list(request.stop) or None,
        }
        optional = {
            "options": {name: value for name, value in options.items() if value is not None},
            "tools": [chat_tool(tool) for tool in request.tools],
        }
        conversation = prepare(request, "openai", free_tool_role=self.capabilities.free_tool_role)
        return {
            "model": request.model or self.model,
            "messages": list(_messages(conversation)),
            "stream": True,
            **{name: value for name, value in optional.items() if value},
            **spec.extra,
            **request.extra,
        }

    def read(self, data: str) -> Delta:
        """Return what *data* adds: a line of the stream, or a whole answer in the same form."""
        line = _line(load_json(self.name, data))
        if line.error is not None:
            raise error_in_stream(self.name, line.error)
        return _delta(line)

    def calls(self) -> NativeCalls:
        """Return what puts the native calls of one reply together."""
        return NativeCalls()


class _Words(msgspec.Struct):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[Any] | None = None


class _Line(msgspec.Struct):
    model: str | None = None
    message: _Words | None = None
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    error: Any = None


def _line(value: Any) -> _Line:
    try:
        return msgspec.convert(value, _Line)
    except msgspec.ValidationError as exc:
        raise ProviderError(
            f"ollama answered JSON that is no chat: {exc}", code="provider_protocol"
        ) from exc


def _delta(line: _Line) -> Delta:
    words = line.message or _Words()
    # Older servers end without a reason.
    finish = (line.done_reason or "stop") if line.done else None
    return Delta(
        text=words.content or "",
        thinking=bool(words.thinking or words.tool_calls),
        tool_calls=tuple(_unindexed(call) for call in words.tool_calls or ()),
        finish=finish,
        stop_reason=_STOP_REASONS.get(finish or ""),
        model=line.model,
        usage=Usage(line.prompt_eval_count or 0, line.eval_count or 0),
        last=line.done,
    )


def _unindexed(call: Any) -> Any:
    """Return *call* without an index: calls come whole, and some servers count all as the first."""
    return {k: v for k, v in call.items() if k != "index"} if isinstance(call, dict) else call


def _messages(conversation: Conversation) -> Iterator[dict[str, Any]]:
    if conversation.system:
        yield {"role": "system", "content": conversation.system}
    for turn in conversation.turns:
        yield from (_result(result) for result in turn.results)
        if turn.calls:
            calls = [_call(call) for call in turn.calls]
            yield {"role": "assistant", "content": turn.text, "tool_calls": calls}
        elif turn.text:
            yield {"role": turn.role, "content": turn.text}


def _call(call: Asked) -> dict[str, Any]:
    """Return *call* with its arguments as an object: text is refused."""
    return {"id": call.id, "function": {"name": call.name, "arguments": call.args}}


def _result(result: Result) -> dict[str, Any]:
    message = {"role": "tool", "tool_name": result.name or "", "content": result.content}
    return {**message, "tool_call_id": result.call.id} if result.call is not None else message


def _first(asked: Any, default: Any) -> Any:
    return default if asked is None else asked
