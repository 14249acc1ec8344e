"""``python -m tests.soak SECONDS``: a daemon under load for long must not grow (FAULTS A8).

Each round emits events, spawns agents, talks to them and ends them, and connects and leaves. Told
is what the daemon held at the start and at the end, and how its memory grew with the events once
it was warm. Exit code 1 if anything grew.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from ksi_daemon.testing import short_directory
from tests.faults.harness import Daemon, Load, until
from tests.faults.unharmed import Lines, rss

__all__ = ["main", "slope"]

EVENTS: Final = 2_000  # a round
AGENTS: Final = 10
CONNECTS: Final = 100
WARM: Final = 0.4  # of the time, after which memory is looked at
MAX_SLOPE: Final = 1024 * 1024  # bytes of memory per 100,000 events
SETTLED_S: Final = 15.0  # threads that have nothing to do end after ten


class Held(NamedTuple):
    """What a process holds."""

    rss: int
    descriptors: int
    threads: int


def main(seconds: float) -> int:
    """Load a daemon for *seconds*; print the figures; return the exit code."""
    with short_directory() as directory, Daemon(directory / "v", "--durability", "process") as it:
        path = it.var / "events.db"
        _round(it, 0)
        before, began, memory = _held(it), time.monotonic(), []
        for number in count(1):
            _round(it, number)
            passed = time.monotonic() - began
            if passed > WARM * seconds:
                memory.append((number * EVENTS, rss(it)))
            if passed > seconds:
                break
        until(lambda: _has_settled(it, before), SETTLED_S)
        after, grown = _held(it), slope(memory) * 100_000
        sys.stdout.write(
            f"{number * EVENTS} events, {number * AGENTS} agents, {number * CONNECTS} connects"
            f" in {passed:.0f} s; log {path.stat().st_size / 1e6:.0f} MB\n"
            f"before {before}\nafter  {after}\n"
            f"memory grows by {grown / 1024:.0f} KiB per 100,000 events\n"
        )
        return int(grown > MAX_SLOPE or it.stop() != 0)


def slope(points: Iterable[tuple[float, float]]) -> float:
    """Return how much y grows with x, by least squares."""
    xs, ys = zip(*points, strict=True)
    middle_x, middle_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - middle_x) ** 2 for x in xs)
    moved = sum((x - middle_x) * (y - middle_y) for x, y in zip(xs, ys, strict=True))
    return float(moved / spread) if spread else 0.0


def _round(daemon: Daemon, number: int) -> None:
    load = Load()
    load.emit(daemon.socket, (f"{number}/{each}" for each in range(EVENTS)))
    assert len(load.acked) == EVENTS, load.errors
    with closing(daemon.client()) as client:
        provider = {"type": "scripted", "replies": ["Hello."], "on_empty": "repeat"}
        for each in range(AGENTS):
            agent = {"agent_id": f"a{number}-{each}"}
            client.request("agent:spawn", {**agent, "system": "Go.", "provider": provider})
            client.request("agent:send", {**agent, "message": "Hello?", "wait": True})
            client.request("agent:terminate", agent)
    for _ in range(CONNECTS):
        with Lines(daemon.socket):
            pass


def _held(daemon: Daemon) -> Held:
    process = Path(f"/proc/{daemon.process.pid}")
    descriptors, threads = (len(list((process / part).iterdir())) for part in ("fd", "task"))
    return Held(rss(daemon), descriptors, threads)


def _has_settled(daemon: Daemon, before: Held) -> bool:
    held = _held(daemon)
    return held.descriptors <= before.descriptors and held.threads <= before.threads


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
