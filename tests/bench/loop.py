"""``make bench``: what the loop around a model costs, with a provider that costs next to nothing.

    a turn      CPU time for one reply of 2 KB with one call, durable: of the thread that runs the
                event loop, and of all threads with that of the log
    a message   the same from agent:send to its answer, without a call; the client's part is in it
    stalls      how late the event loop is while 1,000 agents answer at the same time
    idle        memory of 10,000 agents that do nothing

CPU time is the process's own, so that a busy machine does not count; the lag is of the clock and
does.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import structlog

from ksi_daemon.testing import Peer, connected, running_daemon

TURNS = 400
CROWD = 1_000
IDLE = 10_000
SIZE = 2_048
TICK_S = 0.005
PAGE = os.sysconf("SC_PAGE_SIZE")


def reply(number: int, *, calling: bool) -> str:
    """Return 2 KB of prose, with a call in it if it is *calling*."""
    call = json.dumps({"event": "state:set", "data": {"key": "k", "value": number}})
    prose = f"Turn {number}. " + "All work and no play. " * (SIZE // 22)
    return f"{prose[: SIZE - len(call)]}\n{call}" if calling else prose[:SIZE]


@asynccontextmanager
async def daemon(durability: str) -> AsyncIterator[Peer]:
    """Run a daemon in this process and connect to it."""
    with tempfile.TemporaryDirectory(prefix="ksi-") as directory:
        settings = {"durability": durability, "max_events_per_root": 10**9, "max_agents": 20_000}
        async with (
            running_daemon(Path(directory, "v"), **settings) as socket,
            connected(socket) as peer,
        ):
            yield peer


async def spawn(peer: Peer, agent_id: str, replies: list[str], **fields: Any) -> None:
    provider = {"type": "scripted", "replies": replies}
    asked = {"agent_id": agent_id, "system": "Work.", "provider": provider, **fields}
    await peer.ask("agent:spawn", asked)


async def send(peer: Peer, agent_id: str) -> dict[str, Any]:
    data = {"agent_id": agent_id, "message": "go", "wait": True}
    answer: dict[str, Any] = await peer.ask("agent:send", data)
    return answer


async def cpu_of(work: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
    """Return the CPU milliseconds for a turn of *work*: of the event loop, of all threads."""
    loop, process = time.thread_time(), time.process_time()
    await work()
    spent = (time.thread_time() - loop, time.process_time() - process)
    return spent[0] / TURNS * 1000, spent[1] / TURNS * 1000


async def one_turn(durability: str) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the CPU of a turn with a call, and of an exchange of one turn without."""
    async with daemon(durability) as peer:
        turns = [*(reply(n, calling=True) for n in range(TURNS)), "Done."]
        limits = {"turns": 1_000}
        for agent_id in ("warm", "busy"):
            await spawn(peer, agent_id, turns, allow=["state:*"], limits=limits)
        await send(peer, "warm")
        calling = await cpu_of(lambda: send(peer, "busy"))
        await spawn(peer, "talker", [reply(n, calling=False) for n in range(TURNS)])

        async def talk() -> None:
            for _ in range(TURNS):
                await send(peer, "talker")

        talking = await cpu_of(talk)
    return calling, talking


async def stalls() -> tuple[float, float, float]:
    """Return the median, 99th percentile and maximum of the loop's lag in ms, under a crowd."""
    lags: list[float] = []
    async with daemon("process") as peer:
        for n in range(CROWD):
            replies = [*(reply(m, calling=True) for m in range(3)), "Done."]
            await spawn(peer, f"a{n}", replies, allow=["state:*"])
        done = asyncio.Event()

        async def watch() -> None:
            while not done.is_set():
                due = time.perf_counter() + TICK_S
                await asyncio.sleep(TICK_S)
                lags.append((time.perf_counter() - due) * 1000)

        watching = asyncio.ensure_future(watch())
        for n in range(CROWD):
            peer.write({"event": "agent:send", "data": {"agent_id": f"a{n}", "message": "go"}})
        while await _is_busy(peer):  # noqa: ASYNC110 - the daemon is asked as a client would
            await asyncio.sleep(0.1)
        done.set()
        await watching
    ordered = sorted(lags)
    return statistics.median(ordered), ordered[int(len(ordered) * 0.99)], ordered[-1]


async def _is_busy(peer: Peer) -> bool:
    return bool((await peer.ask("completion:status"))["running"])


async def idle() -> float:
    """Return the megabytes that the agents take which do nothing."""
    async with daemon("process") as peer:
        await spawn(peer, "first", ["Hi."])
        before = _memory()
        for n in range(IDLE):
            await spawn(peer, f"a{n}", ["Hi."])
        return (_memory() - before) / 1e6


def _memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


async def main() -> None:
    # First: memory that others have used and freed would be used again.
    say(f"{IDLE} idle      {await idle():.1f} MB")
    for durability in ("process", "power"):
        calling, talking = await one_turn(durability)
        for name, (loop, process) in (("a turn", calling), ("a message", talking)):
            say(f"{name}, {durability:7} {loop:.2f} ms on the loop, {process:.2f} ms in all")
    median, late, latest = await stalls()
    say(f"{CROWD} agents     lag {median:.1f} ms, p99 {late:.1f} ms, at most {latest:.1f} ms")
    say(f"peak            {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    asyncio.run(main())
