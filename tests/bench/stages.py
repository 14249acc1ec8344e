"""Where the CPU time of one event goes: ``python -m tests.bench.stages [--subscribers N]``.

A daemon runs in this process under load. A timer of its CPU time looks at the stack of the event
loop again and again, and charges the CPU time that its thread has used since to the innermost file
of the stack that belongs to a stage. What the thread of the log uses is read from its own clock, so
the sum of all lines is the process's time but for what helpers use. Looking costs about 1 %.

A signal is seen between two instructions of Python: a call into C, such as a write to a socket, is
charged to the function that made it.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

import structlog

from ksi_daemon.testing import running_daemon
from tests.bench.listeners import listening
from tests.bench.load import compiled, load
from tests.bench.servers import HEALTH, MARK

__all__ = ["STAGES", "Watch", "stage_of"]

EVERY_S: Final = 0.001  # of CPU time
WARM_UP_S: Final = 0.3
SECONDS: Final = 3.0
LOADS: Final = (("50 clients", 50, 1), ("depth 64", 1, 64))
LOG_THREAD: Final = "log: the thread that commits"
OTHER: Final = "other"

# The first that fits: how a path ends or what it holds, the functions (all if none), the stage.
STAGES: Final[tuple[tuple[str, frozenset[str], str], ...]] = (
    ("protocol/messages.py", frozenset({"encode"}), "reply"),
    ("ksi_daemon/protocol/", frozenset(), "decode"),
    ("services/subscriptions.py", frozenset(), "fan-out"),
    ("ksi_daemon/feed.py", frozenset(), "fan-out"),
    (
        "transports/unix.py",
        frozenset({"_reply", "_answer", "_send", "_flush", "push"}),
        "reply",
    ),
    ("ksi_daemon/transports/", frozenset(), "socket"),
    ("ksi_daemon/log/", frozenset(), "log: on the loop"),
    ("ksi_daemon/", frozenset(), "dispatch"),
    ("/asyncio/", frozenset(), "socket"),
    ("/selectors.py", frozenset(), "socket"),
)


class Watch(NamedTuple):
    """The CPU seconds of each stage, as long as they were watched."""

    seconds: Counter[str]

    def each(self, events: int) -> Iterator[tuple[str, float, float]]:
        """Yield each stage, the microseconds of one of *events*, and its share."""
        total = sum(self.seconds.values())
        for stage, seconds in self.seconds.most_common():
            yield stage, seconds / events * 1e6, seconds / total


def stage_of(stack: list[tuple[str, str]]) -> str:
    """Return the stage that the innermost known place of *stack* belongs to.

    A place is a path and a function; the innermost comes first.
    """
    for path, function in stack:
        for part, functions, stage in STAGES:
            if part in path and (not functions or function in functions):
                return stage
    return OTHER


@contextmanager
def watching() -> Iterator[Watch]:
    """Charge this thread's CPU time, and the log's, to stages; for the main thread."""
    watch = Watch(Counter())
    writer = next(t for t in threading.enumerate() if t.name == "ksi-log-writer")
    clock = time.pthread_getcpuclockid(writer.ident)
    last, began = time.thread_time(), time.clock_gettime(clock)

    def look(_: int, frame: FrameType | None) -> None:
        nonlocal last
        now = time.thread_time()
        watch.seconds[stage_of(_stack(frame))] += now - last
        last = now

    before = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S)
    try:
        yield watch
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        watch.seconds[LOG_THREAD] += time.clock_gettime(clock) - began


def _stack(frame: FrameType | None) -> list[tuple[str, str]]:
    places = []
    while frame is not None:
        places.append((frame.f_code.co_filename, frame.f_code.co_name))
        frame = frame.f_back
    return places


async def measure(
    program: Path | None, line: str, clients: int, depth: int, subscribers: int
) -> tuple[int, Watch]:
    """Return how many events there were, and the stages of their CPU time."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ksi-"))
        socket = await stack.enter_async_context(running_daemon(Path(folder, "v")))
        listeners = stack.enter_context(ExitStack())
        if subscribers:
            entered = listening(socket, subscribers)
            await asyncio.to_thread(listeners.enter_context, entered)
        options = {"clients": clients, "depth": depth}
        await asyncio.to_thread(load, program, str(socket), line, seconds=WARM_UP_S, **options)
        with watching() as watch:
            told = await asyncio.to_thread(
                load, program, str(socket), line, seconds=SECONDS, **options
            )
    return told.requests, watch


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Where the CPU time of one event goes.")
    parser.add_argument("--subscribers", type=int, default=0, help="that read all")
    subscribers = parser.parse_args().subscribers
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with tempfile.TemporaryDirectory(prefix="ksi-bench-") as folder:
        program = compiled(Path(folder))
        if program is None:
            raise SystemExit("needs gcc: a client in Python would be measured with the daemon")
        for event, line in (("health", HEALTH), ("mark, process", MARK)):
            for name, clients, depth in LOADS:
                events, watch = asyncio.run(measure(program, line, clients, depth, subscribers))
                title = f"{event}, {name}"
                sys.stdout.write(f"{title:34}{'CPU us':>9}{'share':>8}\n")
                for stage, micros, share in watch.each(events):
                    sys.stdout.write(f"  {stage:32}{micros:9.1f}{share:8.0%}\n")
                total = sum(watch.seconds.values()) / events * 1e6
                sys.stdout.write(f"  {'in all':32}{total:9.1f}\n\n")


if __name__ == "__main__":
    main()
