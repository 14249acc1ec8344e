"""``make bench``: what the loop around a model costs, with a provider that costs next to nothing.

    a turn      CPU time for one reply of 2 KB with one call, durable, in exchanges of 25 turns: of
                the thread that runs the event loop, and of all threads with that of the log
    a message   the same from agent:send to its answer, without a call; the client's part is in it
    a crowd     1,000 agents get a message at the same time and answer in four turns: how late the
                event loop is meanwhile, and how long another client waits for system:health
    idle        memory of 10,000 agents that do nothing

CPU time is the process's own, so that a busy machine does not count; the lag is of the clock and
does.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from ksi_daemon.testing import Peer, connected, running_daemon

EXCHANGES = 16
TURNS = 25
CROWD = 1_000
IDLE = 10_000
SIZE = 2_048
TICK_S = 0.005
PAGE = os.sysconf("SC_PAGE_SIZE")


class Cpu(NamedTuple):
    """CPU milliseconds for one turn: of the event loop, of all threads."""

    loop: float
    process: float


class Crowd(NamedTuple):
    """How long the crowd took in seconds; the loop's lag and the answers to a client in ms."""

    seconds: float
    lag: list[float]
    health: list[float]


def reply(number: int, *, calling: bool) -> str:
    """Return 2 KB of prose, with a call in it if it is *calling*."""
    call = json.dumps({"event": "state:set", "data": {"key": "k", "value": number}})
    prose = f"Turn {number}. " + "All work and no play. " * (SIZE // 22)
    return f"{prose[: SIZE - len(call)]}\n{call}" if calling else prose[:SIZE]


@asynccontextmanager
async def daemon(durability: str) -> AsyncIterator[tuple[Path, Peer]]:
    """Run a daemon in this process; yield its socket and a connection."""
    with tempfile.TemporaryDirectory(prefix="ksi-") as directory:
        settings = {
            "durability": durability,
            "max_events_per_root": 10**9,
            "max_agents": 20_000,
            "agent_events_burst": 10**9,
        }
        async with (
            running_daemon(Path(directory, "v"), **settings) as socket,
            connected(socket) as peer,
        ):
            yield socket, peer


async def spawn(peer: Peer, agent_id: str, replies: list[str], **fields: Any) -> None:
    provider = {"type": "scripted", "replies": replies}
    asked = {"agent_id": agent_id, "system": "Work.", "provider": provider, **fields}
    await peer.ask("agent:spawn", asked)


async def send(peer: Peer, agent_id: str) -> None:
    data = {"agent_id": agent_id, "message": "go", "wait": True}
    answer = await peer.ask("agent:send", data)
    if answer["finish_reason"] != "stop":
        raise SystemExit(f"an agent did not answer as it should: {answer}")


async def cpu_of(work: Callable[[], Awaitable[Any]]) -> Cpu:
    """Return the CPU time of *work*, which is all turns."""
    loop, process = time.thread_time(), time.process_time()
    await work()
    turns = EXCHANGES * TURNS / 1000
    return Cpu((time.thread_time() - loop) / turns, (time.process_time() - process) / turns)


async def one_turn(durability: str) -> tuple[Cpu, Cpu]:
    """Return what a turn with a call costs, and an exchange of one turn without."""
    async with daemon(durability) as (_, peer):
        turns = [reply(n, calling=True) for n in range(TURNS - 1)]
        agents = [f"a{n}" for n in range(EXCHANGES)]
        for agent_id in agents:
            await spawn(peer, agent_id, ["Hello.", *turns, "Done."], allow=["state:*"])
            await send(peer, agent_id)

        async def work() -> None:
            for agent_id in agents:
                await send(peer, agent_id)

        calling = await cpu_of(work)
        talker = [reply(n, calling=False) for n in range(EXCHANGES * TURNS)]
        await spawn(peer, "talker", talker)

        async def talk() -> None:
            for _ in talker:
                await send(peer, "talker")

        talking = await cpu_of(talk)
    return calling, talking


async def crowd() -> Crowd:
    """Have a crowd of agents answer at the same time, and watch the loop meanwhile."""
    lag: list[float] = []
    async with daemon("process") as (socket, peer):
        for n in range(CROWD):
            replies = [*(reply(m, calling=True) for m in range(3)), "Done."]
            await spawn(peer, f"a{n}", replies, allow=["state:*"])
        gc.collect()  # what the spawns left is not the crowd's
        watching = asyncio.ensure_future(watch(lag))
        client = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.bench.crowd", str(socket), str(CROWD)),
            stdout=asyncio.subprocess.PIPE,
        )
        told = json.loads((await client.communicate())[0])
        watching.cancel()
    return Crowd(told["seconds"], lag, told["health_ms"])


async def watch(lag: list[float]) -> None:
    """Note again and again how late the loop comes back."""
    while True:
        due = time.perf_counter() + TICK_S
        await asyncio.sleep(TICK_S)
        lag.append((time.perf_counter() - due) * 1000)


async def idle() -> float:
    """Return the megabytes that the agents take which do nothing."""
    async with daemon("process") as (_, peer):
        await spawn(peer, "first", ["Hi."])
        before = _memory()
        for n in range(IDLE):
            await spawn(peer, f"a{n}", ["Hi."])
        return (_memory() - before) / 1e6


def _memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def _percentiles(values: list[float]) -> str:
    ordered = sorted(values)
    half, most = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
    return f"p50 {half:.1f} ms, p99 {most:.1f} ms, at most {ordered[-1]:.1f} ms"


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


async def main() -> None:
    # First: memory that others have used and freed would be used again.
    say(f"{IDLE} idle          {await idle():.1f} MB")
    for durability in ("process", "power"):
        calling, talking = await one_turn(durability)
        for name, cpu in (("a turn", calling), ("a message", talking)):
            told = f"{cpu.loop:.2f} ms on the loop, {cpu.process:.2f} ms in all"
            say(f"{name + ', ' + durability:19} {told}")
    many = await crowd()
    rate = CROWD * 4 / many.seconds
    say(f"{CROWD} at once        {many.seconds:.1f} s, {rate:.0f} turns a second")
    say(f"  lag of the loop      {_percentiles(many.lag)}")
    say(f"  answer to a client   {_percentiles(many.health)}")
    say(f"peak                {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    asyncio.run(main())
