"""Seeded slips (``providers.slips``) of calls, one at a time, and what extraction makes of them.

A trial writes a call whose arguments hold pieces of real files, makes one slip outside of its
strings (or one that leaves no doubt inside), puts prose around it and extracts. It is *exact* if
the call comes out as it was meant, *rejected* if nothing fires, *wrong* if something else fires.
Wrong must never happen; a rejection costs a turn.

    python -m tests.corruption.slips 30000      prints the figures by kind
"""

from __future__ import annotations

import random
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ksi_daemon.extraction import extract, protocol
from ksi_daemon.extraction.dialects import DIALECTS
from ksi_daemon.providers import slips
from ksi_daemon.providers.slips import Slip

__all__ = ["DIALECTS_WRITTEN", "SLIPS", "Trial", "piece", "trial", "trials"]

PAYLOAD = 5_000
ROOT = Path(__file__).resolve().parents[2]
DIALECTS_WRITTEN = ("event", "ksi_tool_use")


class Trial(NamedTuple):
    """One slip in *block*, which stands in *text*, what was *meant*, and what became of it.

    *outcome*: exact, rejected or wrong.
    """

    kind: str
    dialect: str
    text: str
    block: str
    meant: tuple[str, dict[str, Any]]
    outcome: str


def trial(kind: str, dialect: str, seed: int) -> Trial | None:
    """Make one trial; None if the slip finds no place in the call that *seed* draws."""
    rng = random.Random(f"{kind}/{dialect}/{seed}")
    args = _args(rng)
    block = DIALECTS[dialect].write("files:write", args, "ksiu_01")
    slipped = SLIPS[kind](block, rng)
    if slipped is None:
        return None
    text = rng.choice(_BEFORE) + slipped
    if kind not in _AT_THE_END:
        text += rng.choice(_AFTER)
    # A writer that is cut off is reported as such; one that stops by itself has said all.
    stop_reason = "length" if kind == "truncated" else "stop"
    calls = extract(text, protocol("ksi"), stop_reason=stop_reason).calls
    meant = ("files:write", args)
    found = [(call.name, call.args) for call in calls]
    outcome = "exact" if found == [meant] else "wrong" if found else "rejected"
    return Trial(kind, dialect, text, slipped, meant, outcome)


def trials(kind: str, count: int) -> Iterator[Trial]:
    """Yield *count* trials of *kind*, the dialects in turn."""
    made, seed = 0, 0
    while made < count and seed < 20 * count:
        found = trial(kind, DIALECTS_WRITTEN[seed % len(DIALECTS_WRITTEN)], seed)
        seed += 1
        if found is not None:
            made += 1
            yield found


def _args(rng: random.Random) -> dict[str, Any]:
    return {
        "path": f"src/{rng.randrange(100)}.py",
        "content": piece(rng),
        "append": rng.choice([True, False]),
        "mode": rng.choice([None, 420, 0.5]),
        "tags": ["a", f"x{rng.randrange(9)}"],
        "options": {"wrap": rng.choice([80, -1]), "note": piece(rng)[:80]},
    }


def piece(rng: random.Random) -> str:
    """Return a piece of a real file."""
    text = rng.choice(_files())
    start = rng.randrange(max(1, len(text) - 50))
    return text[start : start + rng.randrange(1, PAYLOAD)]


@lru_cache(maxsize=1)
def _files() -> tuple[str, ...]:
    library = Path(sysconfig.get_path("stdlib"))
    # Files that change seldom, so that a seed gives the same trial tomorrow.
    names = (
        "argparse.py",
        "ast.py",
        "configparser.py",
        "csv.py",
        "dataclasses.py",
        "difflib.py",
        "html/entities.py",
        "json/decoder.py",
        "pydoc_data/topics.py",
        "string.py",
        "textwrap.py",
        "tomllib/_parser.py",
    )
    paths = [*(library / name for name in names), ROOT / "README.md"]
    return tuple(path.read_text(encoding="utf-8") for path in paths)


SLIPS: Mapping[str, Slip] = {"clean": lambda text, rng: text, **slips.SLIPS}
_AT_THE_END = frozenset({"missing_closer", "truncated"})
_BEFORE = ("", "Here it is:\n", "I'll write {it} now.\n\n", "```json\n")
_AFTER = ("", "\nDone.", "\n```\nThat's it: {ok}.\n", "\n\nAnything else?")


def main(count: int) -> None:
    """Print how each kind of slip fared in *count* trials in all."""
    each = max(1, count // len(SLIPS))
    lines = [f"{'slip':20}{'trials':>8}{'exact':>9}{'rejected':>10}{'wrong':>7}"]
    for kind in SLIPS:
        outcomes = Counter(made.outcome for made in trials(kind, each))
        total = sum(outcomes.values())
        exact = f"{100 * outcomes['exact'] / total:.1f} %"
        lines.append(f"{kind:20}{total:8}{exact:>9}{outcomes['rejected']:10}{outcomes['wrong']:7}")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3_000)
