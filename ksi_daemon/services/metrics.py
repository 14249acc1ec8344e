"""monitor:metrics: how the daemon fares, for a collector that asks every few seconds.

Events are counted by the feed as they happen; of the log only the roll-up of reliability is read.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol

from ksi_daemon import __version__
from ksi_daemon.exposition import CONTENT_TYPE, Family, Histogram, Labels, exposition, largest
from ksi_daemon.log.model import Gauges, GroupKey
from ksi_daemon.router import Context, Nothing, Router, handles

__all__ = ["Metrics"]

# Models, and as many dialects, that have series of their own.
MODELS: Final = 50
_VERDICTS: Final = {"strict": "strict", "repaired": "repaired", "rejected": "rejected",
                    "quoted": "held"}  # fmt: skip
_RESULTS: Final = ("handled", "failed", "denied", "unknown", "invalid")
_NONE: Final[Labels] = ()


Gauge = tuple[str, str, Callable[[], float]]


class Reader(Protocol):
    """The part of the log that is read here."""

    async def reliability(
        self, group_by: Sequence[GroupKey], since: datetime | None, until: datetime | None
    ) -> list[dict[str, Any]]: ...


class Metrics:
    """The counts since the start. *gauges* are names, what they tell, what returns them now."""

    def __init__(
        self,
        router: Router,
        reader: Reader,
        *,
        log_path: Path,
        writer: Callable[[], Gauges],
        gauges: Iterable[Gauge],
    ) -> None:
        self._router = router
        self._reader = reader
        self._log_path = log_path
        self._writer = writer
        self._gauges = tuple(gauges)
        self._began = time.time()

    @handles("monitor:metrics", effect="observe", example={})
    async def metrics(self, data: Nothing, ctx: Context) -> dict[str, Any]:
        """Return counters and gauges as Prometheus reads them."""
        by_form = await self._reader.reliability(["model", "dialect"], None, None)
        by_model = await self._reader.reliability(["model"], None, None)
        families = [
            *self._process(),
            *self._events(),
            *self._queues(),
            *_attempts(by_form),
            *_models(by_model),
        ]
        return {"content_type": CONTENT_TYPE, "text": exposition(families)}

    def _process(self) -> Iterator[Family]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        yield _one("ksi_info", "gauge", "The version that runs.", 1, (("version", __version__),))
        yield _one("process_start_time_seconds", "gauge", "Since 1970.", self._began)
        cpu = usage.ru_utime + usage.ru_stime
        yield _one("process_cpu_seconds_total", "counter", "Time on processors.", cpu)
        yield _one("process_resident_memory_bytes", "gauge", "Memory in use.", _memory(usage))

    def _events(self) -> Iterator[Family]:
        submitted: dict[Labels, float] = {
            (("event", name),): n for name, n in self._router.counts.items()
        }
        yield Family("ksi_submitted_total", "counter", "Events that came in, reads too.", submitted)
        ended: dict[Labels, float] = {
            (("event", name), ("status", status)): count
            for (name, status), count in self._router.feed.ends.items()
        }
        yield Family("ksi_events_total", "counter", "Logged events by how they ended.", ended)
        running = self._router.running
        yield _one("ksi_handlers_running", "gauge", "Handlers that run or wait for it.", running)
        for name, text, value in self._gauges:
            yield _one(name, "gauge", text, value())

    def _queues(self) -> Iterator[Family | Histogram]:
        found = self._writer()
        yield _one("ksi_log_queue_units", "gauge", "What waits for the disk.", found.depth)
        yield _one("ksi_log_queue_bytes", "gauge", "Its size.", found.bytes)
        sizes = {float(2**n): count for n, count in enumerate(found.batch_sizes)}
        yield Histogram("ksi_log_batch_units", "Sizes of commits.", sizes, found.units)
        yield _one("ksi_log_units_total", "counter", "What was committed.", found.units)
        yield _one("ksi_log_refused_total", "counter", "What was not.", found.refused)
        yield _one("ksi_log_last_seq", "gauge", "The newest event.", found.last_seq)
        lag = found.last_seq - self._router.feed.last_seq
        yield _one("ksi_log_lag_events", "gauge", "Committed and not told of yet.", max(0, lag))
        for suffix, text in (("", "The log's file."), ("-wal", "Its write-ahead log.")):
            name = f"ksi_log{suffix.replace('-', '_')}_bytes"
            yield _one(name, "gauge", text, _size(Path(f"{self._log_path}{suffix}")))


def _attempts(rows: Sequence[Mapping[str, Any]]) -> Iterator[Family]:
    """Yield what became of blocks; one that no dialect claims counts for none."""
    seen: dict[Labels, float] = {}
    ended: dict[Labels, float] = {}
    for row in rows:
        if row["dialect"] is None:
            continue
        form = (("model", row["model"]), ("dialect", row["dialect"]))
        for name, verdict in _VERDICTS.items():
            seen[*form, ("verdict", verdict)] = row[name]
        for result in _RESULTS:
            ended[*form, ("result", result)] = row[result]
    yield _bounded("ksi_attempts_total", "Blocks that look like calls, as read.", seen)
    yield _bounded("ksi_calls_total", "Calls by how they ended.", ended)


def _models(rows: Sequence[Mapping[str, Any]]) -> Iterator[Family]:
    def by_model(name: str, *more: tuple[str, str]) -> dict[Labels, float]:
        return {(("model", row["model"]), *more): row[name] for row in rows}

    yield _bounded("ksi_completions_total", "Replies of models.", by_model("completions"))
    yield _bounded(
        "ksi_tokens_total",
        "Tokens of requests and replies.",
        by_model("input_tokens", ("direction", "input"))
        | by_model("output_tokens", ("direction", "output")),
    )
    yield _bounded("ksi_provider_errors_total", "Replies that never came.", by_model("errors"))


def _bounded(name: str, text: str, samples: dict[Labels, float]) -> Family:
    return Family(name, "counter", text, largest(samples, MODELS, "model"))


def _one(name: str, kind: Any, text: str, value: float, labels: Labels = _NONE) -> Family:
    return Family(name, kind, text, {labels: value})


def _memory(usage: resource.struct_rusage) -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * resource.getpagesize()
    except (OSError, ValueError):
        return usage.ru_maxrss * 1024


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
