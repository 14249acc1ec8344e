"""The lines of an export that can be imported: a header, a line for each row, an end. Pure.

A line is a JSON object; ``table`` says what it is. The columns are those of the table as the
schema of the header has them: NULL is left out, JSON stands as it is, ``ts`` is RFC 3339 text. The
end counts the rows and has the SHA-256 of all lines before it, so an export that was cut off or
changed is found out.

What is exported is what happened. What would act again (agents, their messages, rules, timers,
servers that are started, approvals) is not: an imported log is there to be asked, and may come
from a stranger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

from ksi_daemon.events import CallRef, ErrorInfo
from ksi_daemon.log.rows import microseconds, moment

__all__ = [
    "ACTING",
    "ANCHOR",
    "RECORDS",
    "VERSION",
    "WHOLE",
    "Column",
    "End",
    "Header",
    "Table",
    "decoder",
]

VERSION: Final = 1
# Where the chain of hashes begins, and counts that also tell of what was pruned. A part of a log
# has no chain, and its counts are made anew. A new log has rows of its own here, which give way.
ANCHOR: Final = "anchor"
WHOLE: Final = ("rollup", "rollup_days", ANCHOR)
# In the order of the export: what refers to a row comes behind it.
RECORDS: Final = (
    "events",
    "outcomes",
    "completions",
    "attempts",
    "manners",
    "readings",
    "corrections",
    "fixes",
    "failures",
    *WHOLE,
)
ACTING: Final = frozenset(
    {
        "agents",
        "approvals",
        "kept_events",
        "mcp_servers",
        "messages",
        "purses",
        "rules",
        "spawns",
        "state",
        "timers",
        "verdicts",
    }
)
_JSON: Final = frozenset(
    {"call", "counts", "data", "error", "protocol", "repairs", "result", "tools"}
)
_Integer = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Time = Annotated[datetime, msgspec.Meta(tz=True)]
_TYPES: Final[Mapping[str, Any]] = {"INTEGER": _Integer, "TEXT": str, "BLOB": bytes, "REAL": float}
# What readers of the log rely on beyond that it is JSON.
_FORMS: Final = {
    "call": msgspec.json.Decoder(CallRef).decode,
    "error": msgspec.json.Decoder(ErrorInfo).decode,
    "repairs": msgspec.json.Decoder(tuple[str, ...]).decode,
}


class Header(msgspec.Struct, tag="header", tag_field="table", omit_defaults=True):
    """What the lines below are. *filter* is what of the log was asked for, None for all of it."""

    format: Literal["ksi-log"]
    version: int
    schema: int
    ksi: str
    made: datetime
    last_seq: int
    filter: dict[str, Any] | None = None


class End(msgspec.Struct, tag="end", tag_field="table"):
    """How many rows there were of each table, and the digest of all lines before this one."""

    rows: dict[str, int]
    sha256: str


class Column(NamedTuple):
    """A column of a table: its SQL type, and whether each row has a value in it."""

    name: str
    type: str
    required: bool


class Table:
    """The rows of one table as lines, and back."""

    def __init__(self, name: str, columns: Sequence[Column]) -> None:
        # A struct's fields that may be absent come last.
        columns = sorted(columns, key=lambda column: not column.required)
        self.name = name
        self.columns = tuple(column.name for column in columns)
        self.type = _line_type(name, columns)
        self._out = tuple(map(_writer, columns))
        self._in = tuple(map(_reader, columns))

    def line(self, row: Sequence[Any]) -> bytes:
        """Return the line of a *row* that has the values of ``columns``."""
        given = [
            msgspec.UNSET if value is None else write(value)
            for write, value in zip(self._out, row, strict=True)
        ]
        return _encode(self.type(*given))

    def row(self, line: msgspec.Struct) -> tuple[Any, ...]:
        """Return the values of ``columns``; raise ValidationError if one is not of its form."""
        return tuple(
            None if (value := getattr(line, name)) is msgspec.UNSET else read(value)
            for name, read in zip(self.columns, self._in, strict=True)
        )


def decoder(tables: Sequence[Table]) -> Callable[[bytes], Any]:
    """Return what reads a line: an End, or a line of one of *tables*."""
    union: Any = End
    for table in tables:
        union = union | table.type
    return msgspec.json.Decoder(union).decode


_encode: Final = msgspec.json.Encoder().encode


def _line_type(name: str, columns: Sequence[Column]) -> type[msgspec.Struct]:
    fields: list[Any] = []
    for column in columns:
        kind = _kind(column)
        fields.append(
            (column.name, kind)
            if column.required
            else (column.name, kind | msgspec.UnsetType, msgspec.UNSET)
        )
    return msgspec.defstruct(
        name, fields, tag=name, tag_field="table", kw_only=False, forbid_unknown_fields=True
    )


def _kind(column: Column) -> Any:
    if column.name in _JSON:
        return msgspec.Raw
    return _Time if column.name == "ts" else _TYPES[column.type]


def _writer(column: Column) -> Callable[[Any], Any]:
    if column.name in _JSON:
        return _embedded
    return moment if column.name == "ts" else _same


def _reader(column: Column) -> Callable[[Any], Any]:
    if column.name in _JSON:
        return _checked(_FORMS.get(column.name, _same))
    return microseconds if column.name == "ts" else _same


def _embedded(text: str) -> msgspec.Raw:
    # Between the tokens of JSON a line break is a blank; within them there is none.
    return msgspec.Raw(text.replace("\n", " ").replace("\r", " ").encode())


def _checked(check: Callable[[msgspec.Raw], Any]) -> Callable[[msgspec.Raw], str]:
    def read(raw: msgspec.Raw) -> str:
        check(raw)
        return str(raw, "utf-8")

    return read


def _same(value: Any) -> Any:
    return value
