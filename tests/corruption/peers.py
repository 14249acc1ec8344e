"""What other ways to find a call make of the same slips.

    python -m tests.corruption.peers 1100      prints right, wrong and nothing by kind and reader

The readers: ksi; the regular expressions for blocks that sources 002 and 003 describe, which know
braces and no strings, each match decoded as JSON; JSON decoded from each brace on; json_repair, for
which there are two rows, since it takes a whole text for one value: given the reply, and given just
the block, which nobody has cut out for it in practice. It is not a dependency: without it, its rows
say so.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

try:
    import json_repair
except ImportError:
    json_repair = None

from tests.corruption.slips import SLIPS, Trial, trials

__all__ = ["READERS", "judge", "outcomes"]

Found: TypeAlias = list[tuple[str, Any]]

FLAT: Final = re.compile(r"\{[^{}]*\}")
ONE_LEVEL: Final = re.compile(r"\{(?:[^{}]|\{[^{}]*\})*\}")


def _calls(value: Any) -> Found:
    """Return the call that *value* is, or those that are in it if it is a list."""
    if isinstance(value, list):
        return [call for each in value for call in _calls(each)]
    if not isinstance(value, dict):
        return []
    if "event" in value and "data" in value:
        return [(value["event"], value["data"])]
    if value.get("type") == "ksi_tool_use":
        return [(value.get("name", ""), value.get("input"))]
    return []


def _by_pattern(pattern: re.Pattern[str]) -> Callable[[Trial], Found]:
    def read(trial: Trial) -> Found:
        return [call for match in pattern.finditer(trial.text) for call in _decoded(match[0])]

    return read


def _decoded(block: str) -> Found:
    try:
        return _calls(json.loads(block))
    except ValueError:
        return []


def _by_json(trial: Trial) -> Found:
    found: Found = []
    decode, at = json.JSONDecoder().raw_decode, 0
    while (at := trial.text.find("{", at)) >= 0:
        try:
            value, at = decode(trial.text, at)
        except ValueError:
            at += 1
            continue
        found += _calls(value)
    return found


def _by_repair(trial: Trial) -> Found:
    return _calls(json_repair.loads(trial.text))


def _by_repair_of_block(trial: Trial) -> Found:
    return _calls(json_repair.loads(trial.block))


READERS: dict[str, Callable[[Trial], Found]] = {
    "regex of 002": _by_pattern(FLAT),
    "regex of 003": _by_pattern(ONE_LEVEL),
    "json": _by_json,
    "json_repair": _by_repair,
    "json_repair, block": _by_repair_of_block,
}
COLUMNS: Final = {"exact": "right", "wrong": "wrong", "rejected": "nothing"}


def judge(trial: Trial, found: Found) -> str:
    """Return what *found* is of what was meant: exact, wrong or rejected, which is nothing."""
    if found == [trial.meant]:
        return "exact"
    return "wrong" if found else "rejected"


def outcomes(made: list[Trial]) -> Iterator[tuple[str, Counter[str] | None]]:
    """Yield what became of *made* by reader; None if the reader is not installed."""
    yield "ksi", Counter(trial.outcome for trial in made)
    for name, read in READERS.items():
        if json_repair is None and "json_repair" in name:
            yield name, None
        else:
            yield name, Counter(judge(trial, read(trial)) for trial in made)


def main(count: int) -> None:
    """Print the table of *count* trials in all."""
    write = sys.stdout.write
    write(f"{'slip':20}{'reader':20}" + "".join(f"{each:>9}" for each in COLUMNS.values()) + "\n")
    totals: dict[str, Counter[str]] = {}
    for kind in SLIPS:
        for reader, found in outcomes(list(trials(kind, count // len(SLIPS)))):
            write(f"{kind:20}{reader:20}{_figures(found)}\n")
            totals.setdefault(reader, Counter()).update(found or {})
    for reader, total in totals.items():
        write(f"{'all':20}{reader:20}{_figures(total or None)}\n")


def _figures(found: Counter[str] | None) -> str:
    if found is None:
        return "  not installed"
    return "".join(f"{found[outcome]:9}" for outcome in COLUMNS)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_100)
