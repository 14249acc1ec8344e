"""The budget: what was promised of speed and size, each line with what was measured of it.

All but start, size and time of a command are ratios to something measured in the same run, since
absolute times of a shared machine mean little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

__all__ = ["BUDGET", "Line", "Verdict", "judged", "told"]

Verdict = Literal["met", "not met", "not measured"]


class Line(NamedTuple):
    """A promise: *figure* is to be at least, or at most, *bound*."""

    figure: str
    side: Literal["at least", "at most"]
    bound: float
    promise: str

    def verdict(self, measured: float | None) -> Verdict:
        """Say whether *measured* keeps it; None is what this run did not measure."""
        if measured is None:
            return "not measured"
        kept = measured >= self.bound if self.side == "at least" else measured <= self.bound
        return "met" if kept else "not met"


BUDGET: Final = (
    Line("health, 50 clients", "at least", 0.6, "x echo: unlogged, 50 clients"),
    Line("mark, process, 50 clients", "at least", 0.25, "x echo: durable (process), 50 clients"),
    Line("mark, process, depth 64", "at least", 0.12, "x echo: durable (process), depth 64"),
    Line("power to process, 50 clients", "at least", 0.75, "x process: power, 50 clients"),
    Line("power to process, depth 64", "at least", 0.75, "x process: power, depth 64"),
    Line("to nats", "at least", 1.3, "x NATS request and reply"),
    Line("to autogen-core", "at least", 10, "x autogen-core send_message"),
    Line("to aiosqlite", "at least", 12, "x aiosqlite for each event, depth 64"),
    Line("to the original", "at least", 50, "x the original KSI"),
    Line("reply of 2 KB", "at most", 1.5, "x json.loads of the blocks: reply of 2 KB"),
    Line("reply of 17 KB", "at most", 1.5, "x json.loads of the blocks: reply of 17 KB"),
    Line("any, 2 KB", "at most", 3, "x preset ksi: preset any, 2 KB"),
    Line("any, 17 KB", "at most", 3, "x preset ksi: preset any, 17 KB"),
    Line("prose", "at most", 4, "x str.find: prose"),
    Line("to json_repair", "at least", 100, "x json_repair, whole reply of 17 KB"),
    Line("to the original's scanners", "at least", 30, "x the original KSI's scanners"),
    Line("hostile, doubled", "at most", 2.6, "x when a hostile text doubles, the worst"),
    Line("hostile, 1 MB", "at most", 0.5, "s CPU for 1 MB of it, the worst"),
    Line("start", "at most", 200, "ms from exec to the first durable reply"),
    Line("memory", "at most", 45, "MB then (RSS)"),
    Line("10,000 idle agents", "at most", 20, "MB for 10,000 idle agents"),
    Line("ksi emit", "at most", 120, "ms of process time for a command"),
    Line("a stalled subscriber", "at most", 1.2, "x the others' p99 beside one that stalls"),
    Line("100 subscribers", "at least", 10, "x one drain for each event, 100 subscribers"),
)


def judged(figures: Mapping[str, float]) -> Iterator[tuple[Line, float | None, Verdict]]:
    """Yield each line of the budget with its figure and the verdict."""
    for line in BUDGET:
        measured = figures.get(line.figure)
        yield line, measured, line.verdict(measured)


def told(rows: Iterable[tuple[Line, float | None, Verdict]]) -> str:
    """Return the lines of the budget as a table."""
    table = f"{'verdict':14}{'measured':>10}  {'wanted':16}\n"
    for line, measured, verdict in rows:
        figure = "" if measured is None else f"{measured:.2f}"
        wanted = f"{line.side} {line.bound:g}"
        table += f"{verdict:14}{figure:>10}  {wanted:16}{line.promise}\n"
    return table
