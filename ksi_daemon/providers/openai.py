"""The chat completions wire of OpenAI, which most other vendors and local servers speak too.

Pure: a request into a JSON body, one event of the stream into a ``Delta``. ``build`` gives it
the shell that all HTTP vendors share.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

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
    Tool,
    Usage,
)
from ksi_daemon.providers.native_calls import NativeCalls
from ksi_daemon.providers.retry import Retrying
from ksi_daemon.providers.server import Server, ServerSpec
from ksi_daemon.providers.wire import Delta

__all__ = ["OpenAI", "Spec", "build", "chat_tool"]

_HOST: Final = "api.openai.com"
_DONE: Final = "[DONE]"

# Words that are not here say nothing we can trust: the stop reason is then None, nothing in the
# text fires, and the completion says which word it was. "abort" and "error" belong there.
_STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}


class Spec(ServerSpec, frozen=True, kw_only=True, tag_field="type", tag="openai"):
    """A server that speaks chat completions.

    Without *api_key_env* the key of OpenAI's own host is OPENAI_API_KEY, and no other host gets
    one. *temperature* and *max_tokens* are for requests that name none. That a host other than
    OpenAI's own does native calls is for *capabilities* to say. *extra* are fields for each body.
    """

    base_url: str = f"https://{_HOST}/v1"


def build(spec: Spec) -> Provider:
    """Return the provider that *spec* describes, with retries and a circuit breaker."""
    return Retrying(HttpProvider(OpenAI(spec)))


class OpenAI(Server):
    """The vendor (``wire.Vendor``) that *spec* describes."""

    name = "openai"

    def __init__(self, spec: Spec) -> None:
        official = urlsplit(spec.base_url).hostname == _HOST
        own = Capabilities(streaming=True, native_tool_calls=official)
        super().__init__(spec, own, host=_HOST, key_env="OPENAI_API_KEY")
        self._spec = spec

    def url(self, request: Request) -> str:
        """Return the address of the endpoint."""
        return self.base_url.rstrip("/") + "/chat/completions"

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the header that carries *key*."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def body(self, request: Request) -> dict[str, Any]:
        """Return the JSON body for *request*. What its *extra* holds wins over all else."""
        spec = self._spec
        optional = {
            "temperature": _first(request.temperature, spec.temperature),
            # OpenAI's own models that reason refuse the old name; other servers know only it.
            "max_completion_tokens" if self.is_official else "max_tokens": _first(
                request.max_tokens, spec.max_tokens
            ),
            "stop": list(request.stop) or None,
            "tools": [chat_tool(tool) for tool in request.tools] or None,
        }
        conversation = prepare(request, "openai", free_tool_role=self.capabilities.free_tool_role)
        return {
            "model": request.model or self.model,
            "messages": list(_messages(conversation)),
            "stream": True,
            "stream_options": {"include_usage": True},
            **{name: value for name, value in optional.items() if value is not None},
            **spec.extra,
            **request.extra,
        }

    def read(self, data: str) -> Delta:
        """Return what *data* adds: an event of the stream, ``[DONE]``, or a whole answer."""
        if data.strip() == _DONE:
            return Delta(last=True)
        chunk = _chunk(load_json(self.name, data))
        if chunk.error is not None:
            raise error_in_stream(self.name, chunk.error)
        return _delta(chunk)

    def calls(self) -> NativeCalls:
        """Return what puts the native calls of one reply together."""
        return NativeCalls()


def chat_tool(tool: Tool) -> dict[str, Any]:
    """Return *tool* as this wire, and Ollama's, have it."""
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(tool.schema),
        },
    }


class _Part(msgspec.Struct):
    text: str | None = None


class _Words(msgspec.Struct):
    """A delta or a message. *reasoning* and its other name are no part of the text."""

    content: str | list[_Part] | None = None
    refusal: str | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    tool_calls: list[Any] | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    delta: _Words | None = None
    message: _Words | None = None
    finish_reason: str | None = None


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Counts(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None

    def usage(self) -> Usage:
        cached = (self.prompt_tokens_details or _Details()).cached_tokens
        return Usage(self.prompt_tokens or 0, self.completion_tokens or 0, cached or 0)


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    model: str | None = None
    usage: _Counts | None = None
    error: Any = None


def _chunk(value: Any) -> _Chunk:
    try:
        return msgspec.convert(value, _Chunk)
    except msgspec.ValidationError as exc:
        raise ProviderError(
            f"openai answered JSON that is no chat completion: {exc}", code="provider_protocol"
        ) from exc


def _delta(chunk: _Chunk) -> Delta:
    # One choice is asked for; a server that sends more must not have them mixed.
    choice = next((c for c in chunk.choices or () if c.index == 0), _Choice())
    words = choice.delta or choice.message or _Words()
    finish = choice.finish_reason or None
    return Delta(
        text=_text(words),
        thinking=bool(words.reasoning_content or words.reasoning or words.tool_calls),
        tool_calls=tuple(words.tool_calls or ()),
        finish=finish,
        stop_reason=_STOP_REASONS.get(finish or ""),
        model=chunk.model,
        usage=(chunk.usage or _Counts()).usage(),
    )


def _text(words: _Words) -> str:
    if isinstance(words.content, list):
        return "".join(part.text or "" for part in words.content)
    return words.content or words.refusal or ""


def _messages(conversation: Conversation) -> Iterator[dict[str, Any]]:
    if conversation.system:
        yield {"role": "system", "content": conversation.system}
    for turn in conversation.turns:
        yield from (_result(result) for result in turn.results)
        if turn.calls:
            calls = [_call(call) for call in turn.calls]
            yield {"role": "assistant", "content": turn.text or None, "tool_calls": calls}
        elif turn.text:
            yield {"role": turn.role, "content": turn.text}


def _call(call: Asked) -> dict[str, Any]:
    arguments = json.dumps(call.args, ensure_ascii=False)
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _result(result: Result) -> dict[str, Any]:
    if result.call is None:
        return {"role": "tool", "name": result.name or "", "content": result.content}
    return {"role": "tool", "tool_call_id": result.call.id, "content": result.content}


def _first(asked: Any, default: Any) -> Any:
    return default if asked is None else asked
