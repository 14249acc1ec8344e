"""A crowd at the daemon's door: a message to each agent at once, and a client that wants to know
meanwhile whether the daemon is well.

    python -m tests.bench.crowd SOCKET AGENTS

A process of its own, so that its work does not count as the daemon's. It prints a JSON object:
seconds until the last agent had answered, and how long each question for health took, in ms.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from ksi_daemon.testing import connected

PAUSE_S = 0.005


async def send_all(socket: Path, agents: int) -> None:
    """Send each of *agents* a message, and return when all have answered."""
    async with connected(socket) as peer:
        for n in range(agents):
            data = {"agent_id": f"a{n}", "message": "go", "wait": True}
            peer.write({"event": "agent:send", "data": data})
        for _ in range(agents):
            answer = await peer.pushed()
            if not answer["ok"] or answer["result"]["finish_reason"] != "stop":
                raise SystemExit(f"an agent did not answer as it should: {answer}")


async def ask_health(socket: Path, took: list[float]) -> None:
    """Ask again and again, and note how long each answer took."""
    async with connected(socket) as peer:
        while True:
            began = time.perf_counter()
            await peer.ask("system:health")
            took.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(PAUSE_S)


async def main(socket: Path, agents: int) -> None:
    took: list[float] = []
    began = time.perf_counter()
    asking = asyncio.ensure_future(ask_health(socket, took))
    await send_all(socket, agents)
    seconds = time.perf_counter() - began
    asking.cancel()
    sys.stdout.write(json.dumps({"seconds": seconds, "health_ms": took}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
