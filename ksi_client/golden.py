"""A golden set: replies with what is to be found in them, as JSON lines for CI. Pure.

A line has all that decides how its text is read, and is one that ``ksi extract --jsonl`` takes:

    {"id", "text", "preset", "mode"?, "settings"?, "stop_reason"?, "tools"?, "native"?, "message"?,
     "extractor", "calls": [{"name", "args", "dialect", "start", "end", "repairs"?}],
     "rejected": [{"code", "dialect", "start", "end"}]}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal

import msgspec

from ksi_client.replaying import Read, Reply, found_in, reads_of
from ksi_daemon.errors import KsiError
from ksi_daemon.extraction import EXTRACTOR_VERSION, PRESETS, Protocol, Schemas, protocol

__all__ = ["golden_line", "read_golden"]

_encode: Final = msgspec.json.Encoder().encode


class _Call(msgspec.Struct, omit_defaults=True):
    name: str
    args: dict[str, Any]
    dialect: str
    start: int
    end: int
    repairs: tuple[str, ...] = ()


class _Rejected(msgspec.Struct):
    code: str
    dialect: str
    start: int
    end: int


class _Line(msgspec.Struct, omit_defaults=True, kw_only=True):
    id: Any
    text: str
    preset: str = msgspec.field(default_factory=lambda: "ksi")
    mode: Literal["strict", "lenient"] | None = None
    settings: dict[str, Any] = {}
    stop_reason: str | None = None
    tools: dict[str, Any] = {}
    native: bool = False
    message: dict[str, Any] | None = None
    extractor: int = msgspec.field(default_factory=lambda: EXTRACTOR_VERSION)
    calls: tuple[_Call, ...]
    rejected: tuple[_Rejected, ...] = msgspec.field(default_factory=tuple)


def golden_line(reply: Reply, reads: Sequence[Read]) -> bytes:
    """Return the line that says that *reads* are to be found in *reply*, with its end."""
    settings = _settings(reply.protocol)
    line = _Line(
        id=reply.id,
        text=reply.text,
        preset=reply.protocol.name,
        mode=settings.pop("mode", None),
        settings=settings,
        stop_reason=reply.stop_reason,
        tools=dict(_needed_tools(reply, reads)),
        native=reply.native,
        message=reply.message,
        calls=tuple(
            _Call(
                each.name, dict(each.args or {}), each.dialect, each.start, each.end, each.repairs
            )
            for each in reads
            if each.name is not None
        ),
        rejected=tuple(
            _Rejected(each.code, each.dialect, each.start, each.end)
            for each in reads
            if each.code is not None
        ),
    )
    return _encode(line) + b"\n"


def read_golden(lines: Iterable[bytes], name: str) -> Iterator[Reply]:
    """Yield the replies of a golden set, *name* by name; raise KsiError for a line that is none."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield _reply(msgspec.json.decode(line, type=_Line), number)
        except (msgspec.MsgspecError, UnicodeError, RecursionError, KsiError) as exc:
            hint = exc.hint if isinstance(exc, KsiError) else None
            raise KsiError(f"{name}, line {number}: {exc}", code="bad_line", hint=hint) from exc


def _reply(line: _Line, number: int) -> Reply:
    settings = line.settings | ({"mode": line.mode} if line.mode else {})
    return Reply(
        id=line.id if isinstance(line.id, str) else f"line {number}",
        text=line.text,
        message=line.message,
        stop_reason=line.stop_reason,
        protocol=protocol(line.preset, **settings),
        tools=line.tools,
        native=line.native,
        extractor=line.extractor,
        reads=_reads(line),
    )


def _reads(line: _Line) -> tuple[Read, ...]:
    calls = [
        Read(each.dialect, each.start, each.end, each.name, each.args, each.repairs)
        for each in line.calls
    ]
    rejected = [Read(each.dialect, each.start, each.end, code=each.code) for each in line.rejected]
    return tuple(calls + rejected)


def _settings(read_by: Protocol) -> dict[str, Any]:
    """Return what *read_by* has other than its preset."""
    usual, own = (msgspec.structs.asdict(each) for each in (PRESETS[read_by.name], read_by))
    return {name: value for name, value in own.items() if value != usual[name]}


def _needed_tools(reply: Reply, reads: Sequence[Read]) -> Schemas:
    """Return the tools' schemas if the reply is read otherwise without them: they are large."""
    if not reply.tools:
        return {}
    bare = msgspec.structs.replace(reply, tools={})
    return {} if reads_of(found_in(bare)) == tuple(reads) else reply.tools
