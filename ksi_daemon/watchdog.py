"""A thread that sees when the event loop stands still, and says in whose handler.

A handler that blocks (a long query, a sleep, a loop) holds up every client, and nothing on the
loop could tell of it. What is found goes to the text log; to end a daemon that stands still is
for its service manager, whose own watchdog hears nothing meanwhile.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import structlog

from ksi_daemon.router import handler_in

__all__ = ["watched"]

PATIENCE_S: Final = 1.0

log = structlog.get_logger()


@contextmanager
def watched(patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Watch the running loop during the block: it is asked each *patience_s*, and told of in the
    text log if it has not answered after as long again."""
    loop, ended = asyncio.get_running_loop(), threading.Event()
    args = (loop, threading.get_ident(), patience_s, ended)
    threading.Thread(target=_watch, args=args, name="watchdog", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _watch(
    loop: asyncio.AbstractEventLoop, thread: int, patience_s: float, ended: threading.Event
) -> None:
    while not ended.wait(patience_s):
        answered, asked = threading.Event(), time.monotonic()
        try:
            loop.call_soon_threadsafe(answered.set)
        except RuntimeError:  # the loop is closed
            return
        if not answered.wait(patience_s) and not ended.is_set():
            handler = _tell(thread)
            answered.wait()
            seconds = round(time.monotonic() - asked, 3)
            log.warning("loop_runs_again", handler=handler, seconds=seconds)


def _tell(thread: int) -> str | None:
    """Tell where the loop's thread is; return the handler it is in."""
    frame = sys._current_frames()[thread]
    handler = handler_in(frame)
    log.error("loop_blocked", handler=handler, stack="".join(traceback.format_stack(frame)))
    return handler
