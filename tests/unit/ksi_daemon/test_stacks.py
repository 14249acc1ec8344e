"""The stacks name what every thread and task is doing."""

from __future__ import annotations

import threading

import anyio

from ksi_daemon.stacks import stacks


async def waits_for_nothing(ready: anyio.Event) -> None:
    ready.set()
    await anyio.sleep_forever()


async def test_threads_and_tasks_are_named() -> None:
    held, ready = threading.Event(), anyio.Event()
    thread = threading.Thread(target=held.wait, name="a-thread-that-waits")
    thread.start()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waits_for_nothing, ready, name="a-task-that-waits")
        await ready.wait()
        text = stacks()
        tasks.cancel_scope.cancel()
    held.set()
    thread.join()
    assert "thread a-thread-that-waits" in text
    assert "task a-task-that-waits" in text
    assert "in waits_for_nothing" in text
