"""``make bench``: what it costs to find the calls in a reply, beside what cannot be avoided.

Every table is one interleaved run: in each round the CPU time of each subject is measured once, and
what is shown is the median over the rounds of its ratio to the first one. That is ``json.loads`` of
the blocks alone for replies, as if somebody had cut them out, and one ``str.find`` for prose.

json_repair takes a whole text for one value. It is given the whole reply, as ksi is, and also each
block alone, which is the part of the work that it does; there a block that is JSON costs it no more
than ``json.loads``, so both also get blocks with a comma too many. It is not a dependency; without
it, its rows say so. Then: texts made to be dear, streaming, and right and wrong on seeded slips.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

try:
    import json_repair
except ImportError:
    json_repair = None

from ksi_daemon.extraction import Protocol, extract, protocol
from ksi_daemon.extraction.dialects import DIALECTS
from ksi_daemon.extraction.stream import Extractor
from tests.corruption import peers
from tests.corruption.hostile import HOSTILE, text_of
from tests.corruption.slips import piece
from tests.growth import seconds

ROUNDS: Final = 31
SLOW_ROUNDS: Final = 3  # for what takes a hundred times as long
BATCH: Final = 1e-3  # seconds that one measurement lasts at least: the shorter, the less disturbed
MEGABYTE: Final = 1 << 20
PROSE: Final = "Next comes the part that needs some care, as it says in the plan: write, then run. "
KSI, ANY = protocol("ksi"), protocol("any")


class Reply(NamedTuple):
    """A reply of which *blocks* are the calls."""

    name: str
    text: str
    blocks: list[str]


Subject = tuple[str, Callable[[], Any] | None]


def replies() -> Iterator[Reply]:
    """Yield replies as models write them: prose, and calls with code in their arguments."""
    rng = random.Random(1)
    small = [_block("event", rng, 1_300)]
    fenced = f"{PROSE * 3}\n\n```json\n{small[0]}\n```\n\n{PROSE * 3}"
    yield Reply("2 KB, 1 call in a fence", fenced, small)
    large = [_block(("ksi_tool_use", "event")[i % 2], rng, 2_700) for i in range(5)]
    told = "\n\n".join(f"{PROSE * 4}\n\n{block}" for block in large)
    yield Reply("17 KB, 5 calls", f"{told}\n\n{PROSE}", large)
    tiny = [DIALECTS["event"].write("agent:status", {"status": "ready"}, "")]
    yield Reply("short, 1 small call", f"{PROSE}\n\n{tiny[0]}\n", tiny)


def _block(dialect: str, rng: random.Random, size: int) -> str:
    content = ""
    while len(content) < size:
        content += piece(rng)
    args = {"path": "src/a.py", "content": content[:size], "options": {"wrap": 80, "tags": ["a"]}}
    return DIALECTS[dialect].write("files:write", args, f"ksiu_{rng.randrange(100)}")


def subjects(reply: Reply) -> list[Subject]:
    text, blocks = reply.text, reply.blocks
    slipped, spoilt = text, []
    for block in blocks:
        spoilt.append(f"{block[:-2]},}}}}")
        slipped = slipped.replace(block, spoilt[-1])
    assert len(extract(slipped, KSI).calls) == len(blocks)
    expected = [json.loads(block) for block in blocks]
    for known in (KSI, ANY):
        found = extract(text, known).calls
        args = [block.get("input", block.get("data")) for block in expected]
        assert [call.args for call in found] == args
    return [
        ("json.loads of the blocks", lambda: [json.loads(block) for block in blocks]),
        ("ksi", lambda: extract(text, KSI)),
        ("ksi, preset any", lambda: extract(text, ANY)),
        ("json_repair of the reply", json_repair and (lambda: json_repair.loads(text))),
        ("ksi, a comma too many each", lambda: extract(slipped, KSI)),
        (
            "json_repair of these blocks",
            json_repair and (lambda: [json_repair.loads(block) for block in spoilt]),
        ),
    ]


def prose() -> list[Subject]:
    text = PROSE * 250
    return [
        ("str.find", lambda: text.find("{")),
        ("ksi", lambda: extract(text, KSI)),
        ("ksi, preset any", lambda: extract(text, ANY)),
    ]


def compare(subjects: list[Subject]) -> Iterator[tuple[str, float | None, float | None]]:
    """Yield each subject's median microseconds, and its median ratio to the first one."""
    known = [(name, run, _times(run)) for name, run in subjects if run is not None]
    measured: dict[str, list[float]] = {name: [] for name, _, _ in known}
    for turn in range(ROUNDS):
        for name, run, times in known:
            if times > 1 or turn < SLOW_ROUNDS:
                measured[name].append(_micros(run, times))
    base = measured[subjects[0][0]]
    for name, _ in subjects:
        if name not in measured:
            yield name, None, None
            continue
        ratios = [mine / first for mine, first in zip(measured[name], base, strict=False)]
        yield name, statistics.median(measured[name]), statistics.median(ratios)


def _times(run: Callable[[], Any]) -> int:
    run()
    return max(1, int(BATCH / (_micros(run, 1) * 1e-6)))


def _micros(run: Callable[[], Any], times: int) -> float:
    began = time.thread_time()  # what others do on the machine is not counted
    for _ in range(times):
        run()
    return (time.thread_time() - began) / times * 1e6


def hostile() -> Iterator[tuple[str, str, float, float]]:
    """Yield each dear shape, its preset, the CPU seconds of 1 MB, and what doubling costs."""
    for preset, head, unit in HOSTILE:
        known = protocol(preset)

        def cost(size: int, head: str = head, unit: str = unit, known: Protocol = known) -> None:
            extract(text_of(head, unit, size), known)

        sizes = (MEGABYTE // 2, MEGABYTE)
        half, whole = (min(seconds(cost, size) for _ in range(SLOW_ROUNDS)) for size in sizes)
        yield f"{head!r} | {unit!r}", preset, whole, whole / half


def streaming(reply: Reply) -> Iterator[tuple[int, float, float]]:
    """Yield chunk sizes: the microseconds of a chunk, and the whole as a multiple of one pass."""
    for size in (4, 64, 1024):
        chunks = [reply.text[at : at + size] for at in range(0, len(reply.text), size)]
        times, once = [], []
        for _ in range(SLOW_ROUNDS):
            times.append(_micros(partial(_stream, chunks), 1))
            once.append(_micros(lambda: extract(reply.text, KSI), 10))
        ratio = statistics.median(mine / batch for mine, batch in zip(times, once, strict=True))
        yield size, statistics.median(times) / len(chunks), ratio


def _stream(chunks: list[str]) -> None:
    stream = Extractor(KSI)
    for chunk in chunks:
        stream.feed(chunk)
    stream.close()


def main() -> None:
    """Print all tables."""
    write = sys.stdout.write
    tables = [(reply.name, len(reply.blocks), subjects(reply)) for reply in replies()]
    for name, calls, rows in [*tables, ("20 KB of prose", 0, prose())]:
        write(f"{name:34}{'us':>10}{'us/call':>10}{'x':>8}\n")
        for subject, micros, ratio in compare(rows):
            if micros is None:
                write(f"  {subject:32}{'not installed':>20}\n")
                continue
            each = f"{micros / calls:10.1f}" if calls else " " * 10
            write(f"  {subject:32}{micros:10.1f}{each}{ratio:8.2f}\n")
    write(f"\n{'streaming of 17 KB':34}{'us/chunk':>10}{'x one pass':>12}\n")
    for size, micros, ratio in streaming(list(replies())[1]):
        write(f"  {f'chunks of {size}':32}{micros:10.1f}{ratio:12.1f}\n")
    write(f"\n{'1 MB of':62}{'preset':>12}{'CPU s':>8}{'doubled':>9}\n")
    for shape, preset, whole, growth in hostile():
        write(f"  {shape:60}{preset:>12}{whole:8.2f}{growth:9.2f}\n")
    write("\n")
    peers.main(550)


if __name__ == "__main__":
    main()
