"""``ksi export`` and ``ksi import``: the log for other programs, and a log of what was exported.

These read the log's file, so they need no daemon, and one that runs goes on meanwhile.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, NoReturn

import click
import msgspec

from ksi_client.collector import send
from ksi_client.progress import Progress
from ksi_client.session import Session, common
from ksi_client.text import visible
from ksi_client.times import parse_time
from ksi_client.tracing import trace_events
from ksi_daemon import __version__
from ksi_daemon.errors import StorageError
from ksi_daemon.log.export.cloudevents import cloud_event
from ksi_daemon.log.export.dump import dump
from ksi_daemon.log.export.otlp import requests
from ksi_daemon.log.export.parquet import write_parquet
from ksi_daemon.log.export.record import Record, event_of, is_announcement
from ksi_daemon.log.export.restore import restore
from ksi_daemon.log.export.spans import span
from ksi_daemon.log.model import EventFilter
from ksi_daemon.log.snapshot import Snapshot

__all__ = ["export", "import_"]

FORMATS: Final = ("jsonl", "parquet", "cloudevents", "otel", "chrome")
LOG: Final = "events.db"


def log_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give *command* the option ``--log``."""
    return click.option(
        "--log", type=click.Path(path_type=Path), metavar="FILE", help="A log; the daemon's else."
    )(command)


@click.command()
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
@click.option("-f", "--format", "form", type=click.Choice(FORMATS), default="jsonl", help="(jsonl)")
@click.option("-o", "--output", metavar="FILE", help="Where to; stdout else. Replaced when done.")
@click.option("--agent", "agent_id", metavar="ID", help="Of this agent.")
@click.option("--correlation", "correlation_id", metavar="ID", help="Of this story.")
@click.option("--since", metavar="TIME", callback=parse_time, help="Since then, or 2h ago.")
@click.option("--until", metavar="TIME", callback=parse_time, help="Before.")
@click.option("--to", "url", metavar="URL", help="Send spans to a collector (with -f otel).")
@click.option("--content", is_flag=True, help="Spans with texts, arguments and results in them.")
@log_option
@common
@click.pass_obj
def export(
    session: Session,
    /,
    patterns: tuple[str, ...],
    form: str,
    output: str | None,
    url: str | None,
    content: bool,
    log: Path | None,
    **chosen: Any,
) -> None:
    """Write the log for other programs, or what of it is asked for.

    \b
      jsonl        a JSON object a line for each row; `ksi import` makes a log of it
      parquet      for DuckDB, pandas, Polars
      cloudevents  CloudEvents 1.0, one a line
      otel         spans of OpenTelemetry for a collector: OTLP, as JSON
      chrome       for Perfetto and chrome://tracing

    \b
      ksi export -f parquet -o night.parquet --since 12h
      ksi export -f otel --to http://127.0.0.1:4318
    """
    _check_options(form, output, url, content)
    wanted = EventFilter(patterns=patterns, **chosen)
    with Snapshot.open(log or session.var_path / LOG) as snapshot:
        oldest, newest = snapshot.bounds()
        with Progress("events", newest - oldest + 1) as progress:
            if form == "jsonl":
                _written(output, _dumped(snapshot, wanted, progress, oldest))
                return
            records = _told(snapshot.records(wanted), progress, oldest)
            if url is not None:
                send(requests(_spans(records, content), __version__), url)
            elif form == "parquet":
                with _output(output) as out:
                    write_parquet(records, out)
            else:
                _written(output, _pieces(form, records, content))


@click.command(name="import")
@click.argument("source", type=click.File("rb"), metavar="FILE")
@click.option(
    "--to", "path", type=click.Path(path_type=Path), metavar="FILE", help="The new log's file."
)
@common
@click.pass_obj
def import_(session: Session, source: IO[bytes], path: Path | None) -> None:
    """Make a new log of an export as JSON lines; - is stdin.

    The log is that of the directory (--var), which must have none, or a file (--to). Agents do
    not come to life in it: it is there to be asked.

    \b
      ksi import night.jsonl --var ./night
      ksi up -d --var ./night && ksi reliability --var ./night
    """
    target = path or session.var_path / LOG
    with _tidy(), Progress("bytes", _size(source)) as progress:
        restored = restore(source, target, progress.advance)
    found = {"log": str(target), "part": restored.header.filter is not None, **restored.rows}
    counts = ", ".join(f"{count} {name}" for name, count in restored.rows.items())
    session.output().show(found, lambda: [f"{visible(str(target))}: {counts}"])


def _check_options(form: str, output: str | None, url: str | None, content: bool) -> None:
    if (url is not None or content) and form != "otel":
        raise click.UsageError("--to and --content are for -f otel")
    if url is not None and output is not None:
        raise click.UsageError("either --to a collector or -o a file")
    if form == "parquet" and output is None and sys.stdout.isatty():
        raise click.UsageError("Parquet is nothing for a terminal: say -o FILE")


def _pieces(form: str, records: Iterator[Record], content: bool) -> Iterable[bytes]:
    match form:
        case "cloudevents":
            return (cloud_event(record) + b"\n" for record in records)
        case "chrome":
            return _trace(records)
        case _:
            return (line + b"\n" for line in requests(_spans(records, content), __version__))


def _trace(records: Iterator[Record]) -> Iterator[bytes]:
    """Yield the pieces of one JSON object, a line for each entry."""
    events = (event_of(each) for each in records if not is_announcement(each))
    lead = b'{"displayTimeUnit":"ms","traceEvents":[\n'
    for entry in trace_events(events):
        yield lead + msgspec.json.encode(entry)
        lead = b",\n"
    yield b"\n]}\n"


def _spans(records: Iterator[Record], content: bool) -> Iterator[Any]:
    return (span(each, content=content) for each in records if not is_announcement(each))


def _dumped(
    snapshot: Snapshot, wanted: EventFilter, progress: Progress, oldest: int
) -> Iterator[bytes]:
    for seq, line in dump(snapshot, wanted):
        if seq:
            progress.reach(seq - oldest + 1)
        yield line


def _told(records: Iterator[Record], progress: Progress, oldest: int) -> Iterator[Record]:
    for record in records:
        progress.reach(record.seq - oldest + 1)
        yield record


def _written(output: str | None, pieces: Iterable[bytes]) -> None:
    with _output(output) as out:
        for piece in pieces:
            out.write(piece)


@contextmanager
def _output(name: str | None) -> Iterator[IO[bytes]]:
    """Yield what to write to: stdout, or a file that gets its name when all is in it.

    What is no file, a pipe or a device, is written to as it is.
    """
    if name is None or name == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(name)
    try:
        special = path.exists() and not path.is_file()
        with _tidy(), path.open("wb") if special else _replaced(path) as out:
            yield out
    except BrokenPipeError:
        raise
    except OSError as exc:
        raise StorageError(f"cannot write {name!r}: {exc.strerror}", code="cannot_write") from exc


@contextmanager
def _replaced(path: Path) -> Iterator[IO[bytes]]:
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # What agents wrote is nobody else's.
        with open(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        unfinished.replace(path)
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


@contextmanager
def _tidy() -> Iterator[None]:
    """Have SIGTERM end the block as an exception does, so that nothing is left half made."""
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(number: int, frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def _size(source: IO[bytes]) -> int:
    try:
        return os.fstat(source.fileno()).st_size
    except OSError:
        return 0
