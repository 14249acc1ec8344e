"""Native calls that come in pieces, put together into the message that they are part of.

The pieces are those of OpenAI's stream: the first of a call has its id and name, each one has more
of the text of its arguments, and ``index`` says to which call it belongs. A whole call, as Ollama
sends it, is a piece without an index. What a call means is for ``extraction.read_native`` to say.
"""

from __future__ import annotations

import json
from typing import Any, Final, Protocol

import msgspec

__all__ = ["NativeCalls", "Pieces", "sound"]

PIECE: Final = 64  # bytes: what a piece without arguments counts for


class Pieces(Protocol):
    """What puts the native calls of one reply together; each vendor has its own pieces."""

    def add(self, piece: Any) -> int:
        """Take *piece* and return about how many bytes of memory that takes."""
        ...

    def message(self, text: str) -> dict[str, Any] | None:
        """Return the vendor's message of the reply with *text*, None if it holds no call."""
        ...


class _Call(msgspec.Struct):
    first: Any
    pieces: list[str]


class NativeCalls:
    """The calls of one message, while they arrive."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}

    def add(self, piece: Any) -> int:
        """Take *piece* and return about how many bytes of memory that takes."""
        index = piece.get("index") if isinstance(piece, dict) else None
        known = self._by_index.get(index) if isinstance(index, int) else None
        if known is None:
            known = _Call(piece, [])
            self._calls.append(known)
            if isinstance(index, int):
                self._by_index[index] = known
        else:
            known.pieces.append(_arguments(piece))
        return PIECE + len(_arguments(piece))

    def message(self, text: str) -> dict[str, Any] | None:
        """Return the message of the assistant with *text* beside the calls, None without any."""
        if not self._calls:
            return None
        calls = [sound(_whole(call)) for call in self._calls]
        return {"role": "assistant", "content": text, "tool_calls": calls}


def _whole(call: _Call) -> Any:
    first = call.first
    function = first.get("function") if isinstance(first, dict) else None
    if not isinstance(function, dict) or not call.pieces:
        return first
    arguments = "".join([_arguments(first), *call.pieces])
    return {**first, "function": {**function, "arguments": arguments}}


def sound(call: Any) -> Any:
    """Return *call* with the halves of characters put together, and without those left over.

    It is decoded from JSON. What is nested too deep to be written is no call, and is rejected as
    that.
    """
    try:
        written = json.dumps(call, ensure_ascii=False)
        whole = written.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return json.loads(whole)
    except RecursionError:
        return None


def _arguments(piece: Any) -> str:
    function = piece.get("function") if isinstance(piece, dict) else None
    arguments = function.get("arguments") if isinstance(function, dict) else None
    return arguments if isinstance(arguments, str) else ""
