"""``ksi replay``: read logged replies again, and see what is found otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Final

import click
import msgspec

from ksi_client.golden import golden_line, read_golden
from ksi_client.output import Output
from ksi_client.progress import Progress
from ksi_client.replaying import Read, Reply, Tally, differences, found_in, reads_of
from ksi_client.session import Session, common
from ksi_client.times import parse_time
from ksi_client.views import replayed
from ksi_daemon.errors import KsiError
from ksi_daemon.extraction import PRESETS, protocol
from ksi_daemon.log.replies import (
    LoggedBlock,
    LoggedReply,
    ReplyFilter,
    count_replies,
    replies,
)
from ksi_daemon.log.snapshot import Snapshot

__all__ = ["replay"]

LOG: Final = "events.db"
# Codes of calls that were read and did not run, for what else the reply holds or where it is from.
READ_ALL_THE_SAME: Final = frozenset({"no_nonce", "reply_refused"})


@click.command()
@click.option(
    "--log", type=click.Path(path_type=Path), metavar="FILE", help="A log; the daemon's else."
)
@click.option("--since", metavar="TIME", callback=parse_time, help="Replies since then, or 2h ago.")
@click.option("--until", metavar="TIME", callback=parse_time, help="Replies before.")
@click.option("--agent", "agent_id", metavar="ID", help="Replies of this agent.")
@click.option("--model", metavar="NAME", help="Replies of this model.")
@click.option("--preset", type=click.Choice(list(PRESETS)), help="Read by this preset instead.")
@click.option("--mode", type=click.Choice(["strict", "lenient"]), help="Read in this mode instead.")
@click.option("--repair", type=click.Choice(["on", "off"]), help="With repairs or without.")
@click.option(
    "--legacy-event",
    type=click.Choice(["allow", "warn", "reject_complex", "reject"]),
    help="What to make of the direct form of events.",
)
@click.option(
    "--against", type=click.File("rb"), metavar="FILE", help="A golden set in place of a log."
)
@click.option("--write", metavar="FILE", help="Write what is found now as a golden set.")
@common
@click.pass_obj
def replay(
    session: Session,
    /,
    log: Path | None,
    against: IO[bytes] | None,
    write: str | None,
    since: datetime | None,
    until: datetime | None,
    agent_id: str | None,
    model: str | None,
    **settings: str | None,
) -> None:
    """Read logged replies again with this ksi, and show what is found otherwise.

    Each is read by what it was read by then, or by what the options say. It reads the log's file,
    so it needs no daemon, and one that runs goes on meanwhile. The exit code is 1 if anything
    differs, or cannot be read.

    \b
      ksi replay                              the extractor of today on all that was logged
      ksi replay --since 7d --repair off      what would be lost without repairs
      ksi replay --write golden.jsonl         keep replies with what is found in them
      ksi replay --against golden.jsonl       and see in CI that it stays so
    """
    wanted = ReplyFilter(agent_id=agent_id, model=model, since=since, until=until)
    if against is not None and (log is not None or wanted != ReplyFilter()):
        raise click.UsageError("--against reads a golden set, no log and no part of one")
    chosen = {name: value for name, value in settings.items() if value is not None}
    out = session.output()
    found: Iterable[Reply | str]
    with ExitStack() as stack:
        if against is not None:
            total = 0
            found = read_golden(against, against.name)
        else:
            snapshot = stack.enter_context(Snapshot.open(log or session.var_path / LOG))
            total = count_replies(snapshot, wanted)
            found = _logged(replies(snapshot, wanted))
        keep = stack.enter_context(_golden_set(write))
        progress = stack.enter_context(Progress("replies", total))
        tally = _replayed((_read_by(reply, chosen) for reply in found), keep, progress, out)
    summary = tally.summary()
    out.show({"summary": summary}, lambda: [replayed.summed(summary)])
    if tally.differs or tally.unreadable:
        raise click.exceptions.Exit(1)


def _replayed(
    found: Iterable[Reply | str], keep: Callable[[bytes], object], progress: Progress, out: Output
) -> Tally:
    """Read each reply again, show what differs, and return the counts."""
    tally = Tally()
    for number, reply in enumerate(found, start=1):
        progress.reach(number)
        if isinstance(reply, str):
            tally.unreadable += 1
            continue
        reads = reads_of(found_in(reply))
        other = differences(reply.reads, reads)
        tally.add(reply, other)
        keep(golden_line(reply, reads))
        for each in other:
            progress.clear()
            if out.json:
                out.value(replayed.as_json(reply, each))
            else:
                out.lines(replayed.differing(reply, each, out.paint, out.width))
    if not tally.replies and not tally.unreadable:
        raise KsiError("there are no such replies of agents", code="nothing_to_replay")
    return tally


def _logged(found: Iterable[LoggedReply]) -> Iterator[Reply | str]:
    """Yield what the log has as it is to be read, of what cannot be read the id."""
    for logged in found:
        if logged.manner is None:
            yield logged.id
            continue
        yield Reply(
            id=logged.id,
            text=logged.text,
            message=logged.message,
            stop_reason=logged.stop_reason,
            protocol=logged.manner.protocol,
            tools=logged.manner.tools,
            native=logged.manner.native,
            extractor=logged.extractor,
            reads=tuple(map(_read, logged.blocks)),
            seq=logged.seq,
            agent_id=logged.agent_id,
            model=logged.model,
        )


def _read(block: LoggedBlock) -> Read:
    rejected = block.verdict == "rejected" and block.code not in READ_ALL_THE_SAME
    if rejected:
        return Read(block.dialect, block.start, block.end, code=block.code)
    return Read(block.dialect, block.start, block.end, block.tool, block.data, block.repairs)


def _read_by(reply: Reply | str, chosen: Mapping[str, Any]) -> Reply | str:
    """Return *reply* as it is to be read by the settings *chosen* in place of its own."""
    if isinstance(reply, str) or not chosen:
        return reply
    settings = dict(chosen)
    preset = settings.pop("preset", None)
    base = protocol(preset, max_calls=reply.protocol.max_calls) if preset else reply.protocol
    return msgspec.structs.replace(reply, protocol=msgspec.structs.replace(base, **settings))


@contextmanager
def _golden_set(name: str | None) -> Iterator[Callable[[bytes], object]]:
    """Yield what takes the lines of a golden set, which gets its name when all are in it."""
    if name is None:
        yield lambda line: None
        return
    path = Path(name)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            yield file.write
        unfinished.replace(path)
    except OSError as exc:
        raise KsiError(f"{name} cannot be written: {exc.strerror}", code="unwritable_file") from exc
    finally:
        unfinished.unlink(missing_ok=True)
