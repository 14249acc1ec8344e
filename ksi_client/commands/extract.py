"""``ksi extract``: find the calls in a text, with the daemon's own extractor and no daemon."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, NamedTuple

import click
import msgspec

from ksi_client.output import Output, complain
from ksi_client.session import Session, common
from ksi_client.text import visible
from ksi_client.tools import read_tools, schemas_of
from ksi_client.views.explained import explained
from ksi_client.views.extracted import extracted
from ksi_daemon.errors import KsiError, NotFound
from ksi_daemon.extraction import PRESETS, Extraction, Schemas, protocol, to_json
from ksi_daemon.extraction import extract as find_calls
from ksi_daemon.extraction.explanation import Explanation, Recognition, findings_json, recognise
from ksi_daemon.extraction.explanation import explain as explain_text

__all__ = ["extract"]

AUTO: Final = "auto"


class Asked(msgspec.Struct, frozen=True):
    """How a text is to be read."""

    preset: str = "ksi"
    mode: Literal["strict", "lenient"] | None = None
    stop_reason: str | None = None
    explain: bool = False
    tools: Schemas | None = None


class Result(NamedTuple):
    """What was found in a text; *recognised* if the preset was, *explanation* if that was asked."""

    recognised: Recognition | None
    extraction: Extraction
    explanation: Explanation | None


class Line(msgspec.Struct):
    """One line of ``--jsonl``."""

    id: Any
    text: str
    preset: str | None = None
    mode: Literal["strict", "lenient"] | None = None
    stop_reason: str | None = None


@click.command()
@click.argument("files", metavar="[FILE|-]...", nargs=-1, type=click.Path(allow_dash=True))
@click.option(
    "--preset",
    metavar="NAME",
    type=click.Choice([*PRESETS, AUTO]),
    default="ksi",
    help=f"How calls are written: {', '.join(PRESETS)}; {AUTO} finds out, and says so.",
)
@click.option(
    "--mode", type=click.Choice(["strict", "lenient"]), help="Whether repairs are allowed."
)
@click.option("--stop-reason", metavar="NAME", help="Why the reply ended: stop, length.")
@click.option(
    "--tools",
    type=click.File("rb"),
    metavar="FILE",
    help="JSON Schemas of the tools, for dialects whose arguments are plain text.",
)
@click.option(
    "--explain", is_flag=True, help="Show all that was seen, and the rule that decided each."
)
@click.option(
    "--jsonl", is_flag=True, help='Read {"id", "text", "preset"?, "mode"?} lines; print JSON lines.'
)
@common
@click.pass_obj
def extract(
    session: Session,
    files: tuple[str, ...],
    preset: str,
    mode: Literal["strict", "lenient"] | None,
    stop_reason: str | None,
    tools: BinaryIO | None,
    explain: bool,
    jsonl: bool,
) -> None:
    """Find the calls in a text; needs no daemon.

    FILE is a model's reply, - or nothing for stdin. Every block that is a call or looks like one
    is shown where it stands, with its repairs or the reason why it is not usable. What cannot be
    read is named on stderr and the rest is done; the exit code is 1 then. A line of --jsonl that is
    bad gives {"id", "line", "error": {"code", "message"}}.

    \b
      ksi extract reply.txt                         what would fire
      ksi extract --explain --preset auto *.txt     what was seen, and why
    """
    known = schemas_of(read_tools(tools.read())) if tools else None
    asked = Asked(preset, mode, stop_reason, explain, known)
    out = session.output()
    failed = False
    for name in files or ("-",):
        try:
            data, title = _read(name), "stdin" if name == "-" else name
            if jsonl:
                failed |= not _each_line(data, title, asked, out)
            else:
                _whole(data, title, asked, out, named=len(files) > 1)
        except KsiError as exc:
            complain(exc)
            failed = True
    if failed:
        raise click.exceptions.Exit(1)


def _whole(data: bytes, name: str, asked: Asked, out: Output, *, named: bool) -> None:
    text = _decoded(data, name)
    result = _result(text, asked)
    if out.json:
        out.value({**({"file": name} if named else {}), **_as_json(text, result)})
        return
    if result.recognised:
        click.echo(visible(f"{name}: {_said(result.recognised)}"), err=True)
    if named:
        out.lines([out.paint(f"==> {visible(name)}", "bold")])
    out.lines(_as_lines(text, result, out))
    if named:
        out.lines([""])


def _each_line(data: bytes, name: str, asked: Asked, out: Output) -> bool:
    """Read *data* as JSON lines and print one for each; return whether all could be read."""
    good = True
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            told = msgspec.json.decode(line, type=Line)
            result = _result(told.text, _for_line(told, asked))
        except (msgspec.MsgspecError, UnicodeError, RecursionError, KsiError) as exc:
            hint = exc.hint if isinstance(exc, KsiError) else None
            complain(KsiError(f"{name}, line {number}: {exc}", code="bad_line", hint=hint))
            error = {"code": "bad_line", "message": str(exc), **({"hint": hint} if hint else {})}
            out.value({"id": _id_in(line), "line": number, "error": error})
            good = False
            continue
        out.value({"id": told.id, **_as_json(told.text, result)})
    return good


def _id_in(line: bytes) -> Any:
    """Return the id that a bad *line* tells, None if that cannot be read."""
    try:
        told = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return told.get("id") if isinstance(told, dict) else None


def _for_line(told: Line, asked: Asked) -> Asked:
    preset = told.preset or asked.preset
    if preset not in (*PRESETS, AUTO):
        raise NotFound("preset", preset, (*PRESETS, AUTO))
    mode, stop_reason = told.mode or asked.mode, told.stop_reason or asked.stop_reason
    return msgspec.structs.replace(asked, preset=preset, mode=mode, stop_reason=stop_reason)


def _result(text: str, asked: Asked) -> Result:
    settings: dict[str, Any] = {"mode": asked.mode} if asked.mode else {}
    how: dict[str, Any] = {"stop_reason": asked.stop_reason, "tools": asked.tools}
    recognised = recognise(text, **how, **settings) if asked.preset == AUTO else None
    chosen = protocol(recognised.preset if recognised else asked.preset, **settings)
    if not asked.explain:
        return Result(recognised, find_calls(text, chosen, **how), None)
    explanation = explain_text(text, chosen, **how)
    return Result(recognised, explanation.extraction, explanation)


def _as_json(text: str, result: Result) -> dict[str, Any]:
    found = to_json(result.extraction)
    if result.recognised:
        found["preset"] = result.recognised.preset
        found["dialects"] = dict(result.recognised.dialects)
    if result.explanation:
        found["findings"] = findings_json(text, result.explanation)
    return found


def _as_lines(text: str, result: Result, out: Output) -> Iterator[str]:
    if result.explanation:
        return explained(text, result.explanation, out.paint, out.width)
    return extracted(text, result.extraction, out.paint, out.width)


def _said(recognised: Recognition) -> str:
    counts = [f"{count} {dialect}" for dialect, count in recognised.dialects.items()]
    return f"preset {recognised.preset} ({', '.join(counts) or 'no calls in any dialect'})"


def _read(name: str) -> bytes:
    """Return what is in the file *name*, ``-`` for stdin; raise KsiError if it cannot be read."""
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as exc:
        reason = exc.strerror or str(exc)
        raise KsiError(f"{name} cannot be read: {reason}", code="unreadable_file") from exc


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        told = f"{name} is not UTF-8: byte 0x{data[exc.start]:02x} at offset {exc.start}"
        raise KsiError(told, code="not_utf8") from exc
