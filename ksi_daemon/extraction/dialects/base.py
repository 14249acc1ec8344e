"""What a dialect is, and what dialects share: quotes, names, ids, the shape of arguments."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from copy import copy
from itertools import islice
from typing import Any, ClassVar, Final, Self, TypeAlias, TypeGuard

import msgspec

from ksi_daemon.events import MAX_NAME, is_tool_name
from ksi_daemon.extraction.reader import is_json, read_object

__all__ = [
    "QUOTE",
    "Answer",
    "Dialect",
    "Draft",
    "Fault",
    "Framed",
    "FramedDialect",
    "Head",
    "ObjectDialect",
    "Piece",
    "Reading",
    "Schemas",
    "is_call_id",
    "is_tool_name",
    "listed",
    "nonce_of",
    "object_args",
    "spelled",
]

# A key or a name in a block that is not JSON may wear any of these.
QUOTE: Final = "[\"'‘’“”]"


# Of each tool by its name: the JSON Schema of its arguments.
Schemas: TypeAlias = Mapping[str, Mapping[str, Any]]
_NONCE: Final = re.compile(r"ksiu_([A-Za-z2-7]{8})_.")


class Draft(msgspec.Struct, frozen=True, gc=False):
    """A call as its block says it, before it has its place and a proven id.

    *id* is None when the block gives none that can be used. *notes* are pairs of a diagnostic's
    code and message. *thought* is what the model says it thinks, where its dialect has a place
    for that.
    """

    name: str
    args: dict[str, Any]
    id: str | None
    nonce: str | None = None
    notes: tuple[tuple[str, str], ...] = ()
    thought: str = ""


class Answer(msgspec.Struct, frozen=True):
    """A final answer as its block says it: no call, and the end of the work."""

    content: Any
    notes: tuple[tuple[str, str], ...] = ()
    thought: str = ""


class Fault(msgspec.Struct, frozen=True):
    """Why a block of a dialect is not a usable call."""

    code: str
    message: str


class Head(msgspec.Struct, frozen=True):
    """What is known of an object that could not be read to its end.

    *values* are its own members before the place where reading stopped: key (with its quotes) to
    the value as written, an opening bracket if the value is nested. *ahead* is a stretch of text
    from the first member that was not read, up to the next opening brace.
    """

    values: Mapping[str, str]
    ahead: str


class Reading(msgspec.Struct, frozen=True):
    """How a block is to be read: the settings and the provider's word that matter to it.

    *tools* serves dialects whose arguments are text: a schema tells what such a text stands for.
    None: no tool is known. *nested*: a block may stand in another one, so nothing is known of what
    follows it, and all that it could be is wanted.
    """

    strict: bool
    repairs: bool
    max_depth: int
    stop_reason: str | None = None
    tools: Schemas | None = None
    nested: bool = False


class Piece(msgspec.Struct, frozen=True):
    """A call in a frame, or why there is none; a fault is about *place*."""

    start: int
    end: int
    draft: Draft | Fault
    place: int
    repairs: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()


class Framed(msgspec.Struct, frozen=True):
    """A stretch of text with marks around it: none of it is prose, whatever *pieces* it holds.

    *thought* is what it says if it is a thought of the model's.
    """

    start: int
    end: int
    pieces: tuple[Piece, ...]
    notes: tuple[tuple[str, str], ...] = ()
    thought: str = ""


class Dialect(ABC):
    """One way to write a call. Each block of it holds one of the literals *markers*.

    What a dialect teaches may depend on whom it is taught: *sample* is the name and the arguments
    of a call that they can make, *nonce* what their calls should carry in this turn. *nonce_place*
    says where in a call that goes, empty if it has no place for it. *schemas* are what
    its calls will be read by, None if there will be nothing.
    """

    name: ClassVar[str]
    markers: ClassVar[tuple[str, ...]]
    nonce_place: ClassVar[str] = ""
    sample: tuple[str, Mapping[str, Any]] = ("read_file", {"path": "notes.txt"})
    nonce: str | None = None
    schemas: Schemas | None = None

    @abstractmethod
    def write(self, name: str, args: Mapping[str, Any], id: str) -> str:
        """Return the text of a call, as a model should write it.

        Raise ValueError if the dialect has no way to write *args* that is read back for certain.
        """

    @abstractmethod
    def teach(self, *, compact: bool) -> str:
        """Return the paragraph of a system prompt that teaches this dialect."""

    def taught(
        self,
        *,
        sample: tuple[str, Mapping[str, Any]] | None = None,
        nonce: str | None = None,
        schemas: Schemas | None = None,
    ) -> Self:
        """Return this dialect as it is taught with *sample*, if given, and written with *nonce*."""
        taught = copy(self)
        taught.schemas = schemas or self.schemas
        taught.sample = sample or self.sample
        taught.nonce = nonce if self.nonce_place else None
        return taught


class FramedDialect(Dialect):
    """One way to write a call between marks that are no JSON.

    *opener* finds where a block may begin; *restart* is a regular expression for such a place at
    the start of a line, behind the indentation. Neither these nor ``frame`` look at more than 512
    characters before that place, for a stream keeps no more.
    """

    opener: ClassVar[re.Pattern[str]]
    # The characters that the opener can begin with behind the start of the text, none of them a
    # letter or a blank; empty if it can begin with one of those.
    begins: ClassVar[str] = ""
    restart: ClassVar[str]
    # Whether no text without an opening brace holds a block.
    braced: ClassVar[bool] = False
    # What ends a block, as a stream sees it arrive: before it has, no block is settled.
    closing: ClassVar[re.Pattern[str] | None] = None

    @abstractmethod
    def frame(self, text: str, opener: re.Match[str], reading: Reading) -> Framed | None:
        """Return the block that begins at *opener*, None if that is prose."""

    def settled(
        self, text: str, opener: re.Match[str], framed: Framed | None, reading: Reading
    ) -> bool:
        """Say whether ``frame`` would return *framed* again however *text* goes on.

        A stream asks this before it hands out a block, or the text of an opener that begins none.
        False is always right: then the block waits for the end of the text.
        """
        return False


class ObjectDialect(Dialect):
    """One way to write a call as a JSON object, which may stand anywhere.

    *keys* are its object's own keys. *opening* is a regular expression for what follows the brace
    at the start of such an object: it tells a second try from data that happens to be nested.
    """

    keys: ClassVar[tuple[str, ...]]
    opening: ClassVar[str]

    @abstractmethod
    def read(self, block: dict[str, Any], *, strict: bool) -> Draft | Answer | Fault | None:
        """Return the call that *block* makes, why it makes none, or None: not of this dialect."""

    @abstractmethod
    def resembles(self, head: Head) -> bool:
        """Say whether an object that could not be read was meant for this dialect."""


def is_call_id(value: Any) -> TypeGuard[str]:
    """Say whether *value* may be a call's id: short printable text."""
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME and value.isprintable()


def nonce_of(id: str) -> str | None:
    """Return the nonce in the call id *id*, ``ksiu_<nonce>_<n>``; None if there is none."""
    if id[13:14] != "_":
        return None
    found = _NONCE.match(id)
    return found[1] if found else None


def listed(keys: Iterable[str]) -> str:
    """Return the first few of *keys* for a message."""
    return ", ".join(f"{key[:40]!r}" for key in islice(keys, 8))


def object_args(
    value: Any, key: str, *, strict: bool, code: str = "args_type"
) -> dict[str, Any] | Fault:
    """Return *value*, the arguments of a call under *key*, as an object.

    Unless *strict*, None and blank text are an empty object, and text may hold an object as JSON.
    Text that is no JSON at all gives a fault with *code*.
    """
    if isinstance(value, dict):
        return value
    if not strict:
        if value is None or (isinstance(value, str) and not value.strip()):
            return {}
        if isinstance(value, str):
            return _args_from_text(value, key, code)
    return Fault("args_type", f"{key!r} must be an object, got {_kind(value)}")


def spelled(word: str) -> str:
    """Return a pattern for *word* as a key in quotes of any kind, or in none, and its colon.

    A key in quotes may have lost its colon; quotes and colon may be doubled or have changed places.
    """
    key = re.escape(word)
    return (
        rf"(?:{QUOTE}?+\b{key}\b(?:{QUOTE}{{0,2}}+\s*+:{{1,2}}+|:{QUOTE})"
        rf"|{QUOTE}{key}{QUOTE}\s*+(?=[\"'‘“{{\[]))"
    )


def _args_from_text(text: str, key: str, code: str) -> dict[str, Any] | Fault:
    nested = read_object(text)
    if nested is not None:
        return nested
    if code == "args_type" or is_json(text):
        return Fault("args_type", f"{key!r} must be an object, got text")
    return Fault(code, f"{key!r} must be an object, got string that is not JSON")


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "a number"
