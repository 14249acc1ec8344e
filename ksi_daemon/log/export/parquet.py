"""Events as a Parquet file, written in row groups. Needs the extra ``parquet``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import IO, Any, Final

from ksi_daemon.errors import KsiError
from ksi_daemon.log.export.record import Record

__all__ = ["GROUP", "write_parquet"]

# Events in a row group: some ten megabytes of texts at a time.
GROUP: Final = 10_000
_TEXTS: Final = (
    "id", "event", "data", "source", "correlation_id", "cause_id", "agent_id", "completion_id",
    "call", "status", "result", "error", "error_code", "provider", "model", "preset",
    "stop_reason",
)  # fmt: skip
_NUMBERS: Final = ("seq", "hop", "turn", "input_tokens", "output_tokens")
_MILLISECONDS: Final = ("duration_ms", "latency_ms")


def write_parquet(records: Iterable[Record], out: IO[bytes]) -> None:
    """Write one row for each event; raise KsiError if pyarrow is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as exc:
        raise KsiError(
            "Parquet needs the package pyarrow",
            code="extra_missing",
            hint="pip install 'ksi[parquet]'",
        ) from exc
    schema = pyarrow.schema(
        [
            ("time", pyarrow.timestamp("us", tz="UTC")),
            *((name, pyarrow.int64()) for name in _NUMBERS),
            *((name, pyarrow.string()) for name in _TEXTS),
            *((name, pyarrow.float64()) for name in _MILLISECONDS),
        ]
    )
    with pyarrow.parquet.ParquetWriter(out, schema, compression="zstd") as writer:
        for group in _groups(records):
            writer.write_table(pyarrow.Table.from_pylist(group, schema=schema))


def _groups(records: Iterable[Record]) -> Iterator[list[dict[str, Any]]]:
    rest = iter(records)
    while group := [_row(record) for record in islice(rest, GROUP)]:
        yield group


def _row(record: Record) -> dict[str, Any]:
    row = record._asdict()
    reply = row.pop("reply")
    us = row.pop("duration_us")
    return (
        row
        | ({} if reply is None else reply._asdict() | {"latency_ms": reply.latency_us / 1000})
        | {
            "event": record.name,
            "time": record.ts,
            "error_code": record.error_code,
            "duration_ms": None if us is None else us / 1000,
        }
    )
