"""The wire of Google's Gemini: generateContent, as a stream.

Pure: a request into a JSON body, one chunk of the stream into a ``Delta``. What the vendor puts
beside a call, such as ``thoughtSignature``, is kept: without it the results are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from ksi_daemon.errors import ProviderError
from ksi_daemon.providers.failures import error_in_stream, load_json
from ksi_daemon.providers.history import Asked, Result, Turn, prepare
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

__all__ = ["Gemini", "Parts", "Spec", "build"]

_HOST: Final = "generativelanguage.googleapis.com"
_ROLES: Final = {"user": "user", "assistant": "model"}

# As in ``openai``: a word that is not here, such as MALFORMED_FUNCTION_CALL, is no end that we can
# trust. The vendor ends calls by STOP too; some who speak its wire have a word of their own.
_STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "STOP": "stop",
    "FUNCTION_CALL": "tool_calls",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
}


class Spec(ServerSpec, frozen=True, kw_only=True, tag_field="type", tag="gemini"):
    """A server that speaks Gemini's generateContent.

    Without *api_key_env* the key of Google's own host is GEMINI_API_KEY, and no other host gets
    one. *temperature* and *max_tokens* are for requests that name none. *extra* are fields for
    each body.
    """

    base_url: str = f"https://{_HOST}/v1beta"


def build(spec: Spec) -> Provider:
    """Return the provider that *spec* describes, with retries and a circuit breaker."""
    return Retrying(HttpProvider(Gemini(spec)))


class Gemini(Server):
    """The vendor (``wire.Vendor``) that *spec* describes."""

    name = "gemini"

    def __init__(self, spec: Spec) -> None:
        own = Capabilities(streaming=True, native_tool_calls=True)
        super().__init__(spec, own, host=_HOST, key_env="GEMINI_API_KEY")
        self._spec = spec

    def url(self, request: Request) -> str:
        """Return the address of the model's stream."""
        model = quote((request.model or self.model).removeprefix("models/"), safe="")
        return f"{self.base_url.rstrip('/')}/models/{model}:streamGenerateContent?alt=sse"

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the header that carries *key*; in the address it would end up in logs."""
        return {"x-goog-api-key": key} if key else {}

    def body(self, request: Request) -> dict[str, Any]:
        """Return the JSON body for *request*. What its *extra* holds wins over all else."""
        spec = self._spec
        conversation = prepare(request, "gemini")
        settings = {
            "temperature": _first(request.temperature, spec.temperature),
            "maxOutputTokens": _first(request.max_tokens, spec.max_tokens),
            "stopSequences": list(request.stop) or None,
        }
        known = {name: value for name, value in settings.items() if value is not None}
        system = conversation.system
        optional = {
            "systemInstruction": {"parts": [{"text": system}]} if system.strip() else None,
            "tools": [{"functionDeclarations": [_tool(tool) for tool in request.tools]}]
            if request.tools
            else None,
            "generationConfig": known or None,
        }
        return {
            "contents": [_content(turn) for turn in conversation.turns],
            **{name: value for name, value in optional.items() if value is not None},
            **spec.extra,
            **request.extra,
        }

    def read(self, data: str) -> Delta:
        """Return what *data* adds: a chunk of the stream, or a whole answer in the same form."""
        chunk = _chunk(load_json(self.name, data))
        if chunk.error is not None:
            raise error_in_stream(self.name, chunk.error)
        return _delta(chunk)

    def calls(self) -> Parts:
        """Return what puts the parts of one reply together."""
        return Parts()


class _Content(msgspec.Struct):
    parts: list[dict[str, Any]] | None = None


class _Candidate(msgspec.Struct, rename="camel"):
    index: int = 0
    content: _Content | None = None
    finish_reason: str | None = None


class _Feedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None


class _Counts(msgspec.Struct, rename="camel"):
    """Tokens. Those of thoughts are no part of the candidates'."""

    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    cached_content_token_count: int | None = None


class _Chunk(msgspec.Struct, rename="camel"):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: _Counts | None = None
    model_version: str | None = None
    error: Any = None


class Parts:
    """The parts of one message, while they arrive (``native_calls.Pieces``). A piece is a part."""

    def __init__(self) -> None:
        # Neighbours that are text and nothing else are one part: a list of its pieces.
        self._parts: list[dict[str, Any] | list[str]] = []
        self._has_call = False

    def add(self, piece: Any) -> int:
        """Take *piece* and return about how many bytes of memory that takes."""
        if set(piece) == {"text"}:
            # The text of a reply is counted where it is kept as text.
            return self._add_text(_str(piece["text"]))
        self._has_call = self._has_call or "functionCall" in piece
        self._parts.append(piece)
        return PIECE + len(str(piece))

    def message(self, text: str) -> dict[str, Any] | None:
        """Return the message of the model, None if none of its parts is a call."""
        if not self._has_call:
            return None
        parts = [{"text": "".join(p)} if isinstance(p, list) else p for p in self._parts]
        return {"role": "model", "parts": [sound(part) for part in parts]}

    def _add_text(self, text: str) -> int:
        if not text:
            return 0
        if self._parts and isinstance(self._parts[-1], list):
            self._parts[-1].append(text)
            return 0
        self._parts.append([text])
        return PIECE


def _chunk(value: Any) -> _Chunk:
    try:
        return msgspec.convert(value, _Chunk)
    except msgspec.ValidationError as exc:
        raise ProviderError(
            f"gemini answered JSON that is no content: {exc}", code="provider_protocol"
        ) from exc


def _delta(chunk: _Chunk) -> Delta:
    counts = chunk.usage_metadata or _Counts()
    candidate = next((c for c in chunk.candidates or () if c.index == 0), _Candidate())
    parts = (candidate.content or _Content()).parts or []
    text = "".join(_str(part.get("text")) for part in parts if not part.get("thought"))
    finish, stop_reason = _end(candidate, chunk.prompt_feedback)
    return Delta(
        text=text,
        thinking=any(set(part) - {"text"} for part in parts),
        # What it thought is not wanted back, only that it did (the signature, on other parts).
        tool_calls=tuple(part for part in parts if not part.get("thought")),
        finish=finish,
        stop_reason=stop_reason,
        model=chunk.model_version,
        usage=Usage(
            counts.prompt_token_count or 0,
            (counts.candidates_token_count or 0) + (counts.thoughts_token_count or 0),
            counts.cached_content_token_count or 0,
        ),
    )


def _end(candidate: _Candidate, feedback: _Feedback | None) -> tuple[str | None, StopReason | None]:
    """Return the vendor's word for the end, and what it means; a refused prompt ends a reply."""
    if candidate.finish_reason:
        return candidate.finish_reason, _STOP_REASONS.get(candidate.finish_reason)
    if feedback is not None and feedback.block_reason:
        return feedback.block_reason, "content_filter"
    return None, None


def _str(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _content(turn: Turn) -> dict[str, Any]:
    if turn.native is not None:
        return turn.native
    return {"role": _ROLES[turn.role], "parts": list(_parts(turn))}


def _parts(turn: Turn) -> Iterator[dict[str, Any]]:
    yield from (_result(result) for result in turn.results)
    if turn.text.strip():
        yield {"text": turn.text}
    yield from ({"functionCall": {"name": call.name, "args": call.args}} for call in turn.calls)


def _result(result: Result) -> dict[str, Any]:
    said = {"error" if result.is_error else "output": result.content}
    return {"functionResponse": {**_reference(result.call), "response": said}}


def _reference(call: Asked | None) -> dict[str, str]:
    """Return what says which call is answered: its place, its name, and its id if it has one."""
    if call is None:
        return {"name": ""}
    return {"name": call.name, **({"id": call.id} if call.has_own_id else {})}


def _tool(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parametersJsonSchema": dict(tool.schema),
    }


def _first(asked: Any, default: Any) -> Any:
    return default if asked is None else asked
