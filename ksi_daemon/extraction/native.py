"""Calls out of the native messages of vendors: structures beside the text, not text.

    OpenAI, Ollama  {"tool_calls": [{"id", "type": "function", "function": {"name", "arguments"}}]}
    Anthropic       {"content": [{"type": "tool_use", "id", "name", "input"}, ...]}
    Gemini          {"parts": [{"functionCall": {"name", "args"}, "thoughtSignature"}]}

The shapes are those of the vendors' own references. Each call becomes the same ``Call`` as one that
stands in text, with the dialect ``native``. It has no place in a text: its span is empty, and its
start is the number of the call in its message, so that calls and rejected calls have their order.
A call that cannot be used costs the others nothing. Nothing here raises, whatever the message is.

Also here: which of native calls and calls in text count, how an answer goes back into the
conversation of each vendor, and names that vendors accept.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import count
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec

from ksi_daemon.extraction.dialects.base import Fault, is_call_id, is_tool_name, object_args
from ksi_daemon.extraction.extractor import new_call_id
from ksi_daemon.extraction.model import Call, Diagnostic, Extraction, Rejected
from ksi_daemon.extraction.reader import unsound

__all__ = [
    "NATIVE",
    "Names",
    "Vendor",
    "choose",
    "native_names",
    "read_native",
    "replay",
    "vendor_of",
]

NATIVE: Final = "native"
MAX_CALLS: Final = 64
MAX_DEPTH: Final = 63
MAX_NATIVE_NAME: Final = 64  # characters, of which OpenAI and Anthropic accept no other than these
_NATIVE_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_NATIVE: Final = re.compile(r"[^A-Za-z0-9_-]")
_EXCERPT: Final = 120
_TAG: Final = 8  # digits of a hash

Vendor = Literal["openai", "anthropic", "gemini"]


class _Asked(msgspec.Struct, frozen=True):
    """What an entry says, whoever the vendor is."""

    entry: Any
    name: Any
    args: Any
    key: str
    id: Any


class Names:
    """Names that vendors accept for the names of tools, and back."""

    def __init__(self, native: Mapping[str, str]) -> None:
        self.native: Mapping[str, str] = dict(native)
        self.original: Mapping[str, str] = {short: name for name, short in native.items()}

    def to_native(self, name: str) -> str:
        """Return what *name* is called natively; one that is not known, as it would be."""
        return self.native.get(name) or _mangled(name)

    def to_original(self, name: str) -> str:
        """Return the tool that a model means by *name*; one that is not known stays as it is."""
        return self.original.get(name, name)


def native_names(names: Iterable[str]) -> Names:
    """Return native names for *names*: of ``[A-Za-z0-9_-]{1,64}``, each another, always the same.

    A name that is legal stays as it is. In another, what is not legal becomes ``_``; if that is too
    long, or is what another name is or becomes, it ends with a part of the name's hash. So what one
    name becomes depends on the names it is together with, and not on their order.
    """
    known = sorted(set(names))
    short = {name: name if _NATIVE_NAME.fullmatch(name) else _mangled(name) for name in known}
    counted = Counter(short.values())
    taken = set(counted)
    for name, own in short.items():
        if own != name and counted[own] > 1:
            short[name] = _hashed(name, taken)
            taken.add(short[name])
    return Names(short)


def vendor_of(message: Any) -> Vendor | None:
    """Return the vendor whose shape *message* has, None if it has none of them."""
    if not isinstance(message, dict):
        return None
    if isinstance(message.get("parts"), list) or "functionCall" in message:
        return "gemini"
    content = message.get("content")
    if isinstance(content, dict) and isinstance(content.get("parts"), list):
        return "gemini"
    if isinstance(content, list) and not message.get("tool_calls"):
        return "anthropic"
    return "openai" if "tool_calls" in message or "function_call" in message or content else None


def read_native(
    message: Any,
    *,
    vendor: Vendor | None = None,
    names: Names | None = None,
    new_id: Callable[[], str] = new_call_id,
) -> Extraction:
    """Return the calls and the text of *message*, an assistant's message decoded from JSON.

    Without *vendor* its shape tells whose it is. *names* turns native names back. Ids are kept as
    they are; a call without one gets one of *new_id*, and so does one whose id another call has.
    A call that repeats both the id and the content of another is left out: it is to run once.
    """
    found = _Found(names, new_id)
    chosen = vendor or vendor_of(message)
    if chosen is not None and isinstance(message, dict):
        for number, asked in enumerate(_ASKED[chosen](message)):
            found.take(number, asked)
    return Extraction(
        _TEXT[chosen](message) if chosen is not None and isinstance(message, dict) else "",
        tuple(found.calls),
        tuple(found.rejected),
        tuple(found.diagnostics),
    )


def choose(native: Extraction, text: Extraction, *, declared: bool) -> Extraction:
    """Return what counts of the *native* calls of a reply and of those found in its *text*.

    *declared* is whether the provider says that it can do native calls. Then they win, and beside
    them only events of the text count; without any, the text does. Of a provider that says it
    cannot, the text counts first, and native calls are taken only where it holds none.
    """
    has_native, has_text = (bool(each.calls or each.rejected) for each in (native, text))
    if not has_native:
        return _noted(text, "native_fallback", _FELL_BACK) if declared and has_text else text
    if not declared and has_text:
        return _noted(text, "capability_mismatch", "the native calls beside the text were not run")
    if not declared:
        native = _noted(
            native, "capability_mismatch", "native calls came from who does not do them"
        )
    return _joined(native, text)


def replay(
    message: Any,
    *,
    vendor: Vendor | None = None,
    names: Names | None = None,
    new_id: Callable[[], str] = new_call_id,
    found: Extraction | None = None,
) -> dict[str, Any]:
    """Return *message* as it goes back to its vendor, with each call under the id in *found*.

    *found* is what ``read_native`` returned for it. For OpenAI arguments are JSON text, for the
    others objects. What Gemini puts beside a call, such as ``thoughtSignature``, goes back as it
    came. A message of no vendor's shape gives an empty one.
    """
    chosen = vendor or vendor_of(message)
    if chosen is None or not isinstance(message, dict):
        return {"role": "assistant", "content": ""}
    found = found or read_native(message, vendor=chosen, names=names, new_id=new_id)
    ids = {call.start: call.id for call in found.calls}
    ids |= {block.start: block.id for block in found.rejected}
    return _REPLAYED[chosen](message, ids)


class _Found:
    """The outcomes of one message, one call at a time."""

    def __init__(self, names: Names | None, new_id: Callable[[], str]) -> None:
        self.calls: list[Call] = []
        self.rejected: list[Rejected] = []
        self.diagnostics: list[Diagnostic] = []
        self._names = names
        self._new_id = new_id
        self._ids: dict[str, str] = {}

    def take(self, number: int, asked: _Asked) -> None:
        content = _excerpt([asked.name, asked.args], None) or str(number)
        given = asked.id if is_call_id(asked.id) else None
        if given is not None and self._ids.get(given) == content:
            self._note("duplicate_id", f"the call {given!r} was repeated", number)
            return
        if given in self._ids:
            self._note("duplicate_id", f"the id {given!r} was used before", number)
            given = None
        id = given or self._new_id()
        self._ids[id] = content
        name = self._original(asked.name)
        args = _arguments(name, asked) if len(self.calls) < MAX_CALLS else _TOO_MANY
        if isinstance(args, Fault):
            excerpt = _excerpt(asked.entry, _EXCERPT)
            block = Rejected(args.code, args.message, NATIVE, number, number, excerpt, id)
            self.rejected.append(block)
            return
        if name != asked.name:
            self._note("name_mangled", f"{asked.name!r} stands for {name!r}", number)
        self.calls.append(Call(name, args, id, given is None, NATIVE, number, number))

    def _original(self, name: Any) -> Any:
        return self._names.to_original(name) if self._names and isinstance(name, str) else name

    def _note(self, code: str, message: str, number: int) -> None:
        self.diagnostics.append(Diagnostic(code, message, number, number))


def _arguments(name: Any, asked: _Asked) -> dict[str, Any] | Fault:
    if not is_tool_name(name):
        return Fault("missing_name", f"'name' must name a tool, got {_excerpt(name, 60)}")
    args = object_args(asked.args, asked.key, strict=False, code="args_json")
    if isinstance(args, Fault):
        return args
    flaw = unsound(args, MAX_DEPTH)
    if flaw == "depth":
        return Fault("depth_limit", f"the arguments are nested deeper than {MAX_DEPTH} levels")
    if flaw == "surrogate":
        return Fault("malformed_block", "a string holds half of a surrogate pair")
    return args


def _noted(found: Extraction, code: str, message: str) -> Extraction:
    note = Diagnostic(code, message, 0, 0)
    return msgspec.structs.replace(found, diagnostics=(*found.diagnostics, note))


def _joined(native: Extraction, text: Extraction) -> Extraction:
    """Return *native* with the events in *text* behind it; other calls there are an echo."""
    events = tuple(call for call in text.calls if call.dialect in _EVENTS)
    unused = (
        Diagnostic("shown", f"a {call.dialect} block beside native calls was not run", *call.span)
        for call in text.calls
        if call.dialect not in _EVENTS
    )
    return Extraction(
        text.residual,
        native.calls + events,
        native.rejected + tuple(each for each in text.rejected if each.dialect in _EVENTS),
        (*native.diagnostics, *text.diagnostics, *unused),
    )


def _openai_calls(message: dict[str, Any]) -> Iterator[_Asked]:
    entries = _list(message.get("tool_calls"))
    legacy = message.get("function_call")
    for entry in [*entries, *([] if legacy is None else [{"function": legacy}])]:
        outer = _dict(entry)
        inner = _dict(outer.get("function", outer))
        args = inner.get("arguments")
        yield _Asked(entry, inner.get("name"), args, "arguments", outer.get("id"))


def _anthropic_calls(message: dict[str, Any]) -> Iterator[_Asked]:
    for block in _list(message.get("content")):
        if _is_tool_use(block):
            yield _Asked(block, block.get("name"), block.get("input"), "input", block.get("id"))


def _gemini_calls(message: dict[str, Any]) -> Iterator[_Asked]:
    for part in _gemini_parts(message):
        if _is_function_call(part):
            call = _dict(part["functionCall"])
            yield _Asked(part, call.get("name"), call.get("args"), "args", call.get("id"))


def _gemini_parts(message: dict[str, Any]) -> list[Any]:
    if "functionCall" in message:
        return [message]
    return _list(message.get("parts")) or _list(_dict(message.get("content")).get("parts"))


def _openai_text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(_texts(content))
    return content if isinstance(content, str) else ""


def _anthropic_text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    blocks = (each for each in _list(content) if _dict(each).get("type", "text") == "text")
    return "".join(_texts(blocks))


def _gemini_text(message: dict[str, Any]) -> str:
    parts = (each for each in _gemini_parts(message) if not _dict(each).get("thought"))
    return "".join(_texts(parts))


def _texts(parts: Iterable[Any]) -> Iterator[str]:
    found = (_dict(part).get("text") for part in parts)
    return (text for text in found if isinstance(text, str))


def _openai_replayed(message: dict[str, Any], ids: Mapping[int, str]) -> dict[str, Any]:
    entries = [
        {
            "id": ids[number],
            "type": "function",
            "function": {"name": _name(asked), "arguments": _as_text(asked.args)},
        }
        for number, asked in enumerate(_openai_calls(message))
        if number in ids
    ]
    replayed = {"role": "assistant", "content": message.get("content")}
    return {**replayed, "tool_calls": entries} if entries else replayed


def _anthropic_replayed(message: dict[str, Any], ids: Mapping[int, str]) -> dict[str, Any]:
    content = message.get("content")
    if isinstance(content, str):
        return {"role": "assistant", "content": [{"type": "text", "text": content}]}
    blocks: list[Any] = []
    numbers = count()
    for block in _list(content):
        if not _is_tool_use(block):
            blocks.append(block)
        elif (id := ids.get(next(numbers))) is not None:
            blocks.append({**block, "id": id, "input": _as_object(block.get("input"), "input")})
    return {"role": "assistant", "content": blocks}


def _gemini_replayed(message: dict[str, Any], ids: Mapping[int, str]) -> dict[str, Any]:
    numbers = count()
    parts = _gemini_parts(message)
    kept = [part for part in parts if not _is_function_call(part) or next(numbers) in ids]
    return {"role": "model", "parts": kept}


def _is_tool_use(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_use"


def _is_function_call(part: Any) -> bool:
    return isinstance(part, dict) and "functionCall" in part


def _name(asked: _Asked) -> str:
    return asked.name if isinstance(asked.name, str) else ""


def _as_text(args: Any) -> str:
    """Return *args* as the JSON text that OpenAI wants, also if they could not be used."""
    if isinstance(args, str):
        return args if args.strip() else "{}"
    return "{}" if args is None else _excerpt(args, None)


def _as_object(args: Any, key: str) -> dict[str, Any]:
    found = object_args(args, key, strict=False)
    return found if isinstance(found, dict) else {}


def _excerpt(value: Any, length: int | None) -> str:
    """Return *value* as JSON that can be stored, "" if it is nested too deep for that."""
    try:
        written = json.dumps(value, ensure_ascii=False)[:length]
        return written.encode("utf-8", "replace").decode()
    except (RecursionError, ValueError, TypeError):
        return ""


def _mangled(name: str) -> str:
    short = _NOT_NATIVE.sub("_", name)
    return short if 0 < len(short) <= MAX_NATIVE_NAME else _tagged(short, name, _TAG)


def _hashed(name: str, taken: set[str]) -> str:
    """Return a native name for *name* that is none of *taken*."""
    short = _NOT_NATIVE.sub("_", name)
    lengths = range(_TAG, MAX_NATIVE_NAME)
    return next(own for digits in lengths if (own := _tagged(short, name, digits)) not in taken)


def _tagged(short: str, name: str, digits: int) -> str:
    tag = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
    return f"{short[: MAX_NATIVE_NAME - digits - 1]}_{tag}"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


_EVENTS: Final = frozenset({"event", "ksi_tool_use", "ksi_body"})
_FELL_BACK: Final = "the provider does native calls, and this one wrote its calls into the text"
_TOO_MANY: Final = Fault("size_limit", f"a reply may hold {MAX_CALLS} calls, not more")
_ASKED: Final[Mapping[str, Callable[[dict[str, Any]], Iterator[_Asked]]]] = MappingProxyType(
    {"openai": _openai_calls, "anthropic": _anthropic_calls, "gemini": _gemini_calls}
)
_TEXT: Final[Mapping[str, Callable[[dict[str, Any]], str]]] = MappingProxyType(
    {"openai": _openai_text, "anthropic": _anthropic_text, "gemini": _gemini_text}
)
_REPLAYED: Final[Mapping[str, Callable[[dict[str, Any], Mapping[int, str]], dict[str, Any]]]] = (
    MappingProxyType(
        {"openai": _openai_replayed, "anthropic": _anthropic_replayed, "gemini": _gemini_replayed}
    )
)
