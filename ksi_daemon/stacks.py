"""What every thread and every task is doing, as text: for a daemon that seems to stand still."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

__all__ = ["stacks"]


def stacks() -> str:
    """Return the stacks of all threads, and of all tasks of the running loop."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    threads = [
        f"thread {names.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    ]
    tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    return "\n".join([*threads, *(f"task {task.get_name()}\n{_awaits(task)}" for task in tasks)])


def _awaits(task: asyncio.Task[Any]) -> str:
    """Return the lines that *task* waits in, outermost first; its own stack shows the first."""
    summary = traceback.StackSummary.extract(
        (frame, frame.f_lineno) for frame in _frames(task.get_coro())
    )
    return "".join(summary.format())


def _frames(waiting: Any) -> Iterator[FrameType]:
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        if frame is not None:
            yield frame
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)
