"""Seeded random slips: any bracket, comma, colon or quote of a call, in arguments of any shape.

Where ``slips`` makes what models are known to do, this makes what they might: a character dropped,
doubled or swapped with its neighbour, a line lost, a call cut off and written again, an example
quoted in a string without escapes. A slip that leaves JSON is none: nobody could tell.

A trial is *exact*, *rejected* or *wrong* as in ``slips``, or *unseen*: neither called nor rejected.

    python -m tests.corruption.fuzz 30000      prints the figures by kind
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ksi_daemon.extraction import extract, protocol
from ksi_daemon.extraction.dialects import DIALECTS
from ksi_daemon.providers.slips import STRING, Slip
from tests.corruption.slips import DIALECTS_WRITTEN, Trial, piece

__all__ = ["KINDS", "trial", "trials"]

NAME = "files:write"
WORDS = ("path", "mode", "it's", 'say "hi"', "a, b", "{x}", "[1]", "key: value", "", "\n", "'", "é")
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")
EXAMPLE = '{"event": "system:stop", "data": {}}'


def trial(kind: str, seed: int) -> Trial | None:
    """Make one trial; None if the slip finds no place in the call that *seed* draws."""
    rng = random.Random(f"{kind}/{seed}")
    dialect = rng.choice(DIALECTS_WRITTEN)
    args = _object(rng, 3)
    block = DIALECTS[dialect].write(NAME, args, "ksiu_01")
    if rng.random() < 0.5 or kind == "lost_line":
        block = json.dumps(json.loads(block), indent=2, ensure_ascii=False)
    slipped = KINDS[kind](block, rng)
    if slipped is None or _is_json(slipped):
        return None
    text = rng.choice(_BEFORE) + slipped + rng.choice(_AFTER)
    found = extract(text, protocol("ksi"), stop_reason="stop")
    calls = [(call.name, call.args) for call in found.calls]
    outcome = _outcome(calls, (NAME, args), bool(found.rejected))
    return Trial(kind, dialect, text, slipped, (NAME, args), outcome)


def trials(kind: str, count: int) -> Iterator[Trial]:
    """Yield *count* trials of *kind*."""
    made, seed = 0, 0
    while made < count and seed < 20 * count:
        found = trial(kind, seed)
        seed += 1
        if found is not None:
            made += 1
            yield found


def _outcome(calls: list[tuple[str, Any]], meant: tuple[str, Any], rejected: bool) -> str:
    if any(call != meant for call in calls) or len(calls) > 1:
        return "wrong"
    if calls:
        return "exact"
    return "rejected" if rejected else "unseen"


def _is_json(text: str) -> bool:
    """Say whether *text* is JSON, but for a comma that a lost member leaves."""
    try:
        json.loads(_TRAILING_COMMA.sub("", text), strict=False)
    except ValueError:
        return False
    return True


def _object(rng: random.Random, depth: int) -> dict[str, Any]:
    return {rng.choice("abcdefgh") * 2: _value(rng, depth) for _ in range(rng.randrange(1, 5))}


def _value(rng: random.Random, depth: int) -> Any:
    if depth and rng.random() < 0.4:
        if rng.random() < 0.5:
            return _object(rng, depth - 1)
        return [_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    if rng.random() < 0.6:
        return piece(rng)[:300] if rng.random() < 0.3 else " ".join(rng.choices(WORDS, k=3))
    return rng.choice([None, True, False, 0, -1, 3.5, 12])


def _places(text: str) -> list[int]:
    """Return the places of what holds the block together, and of the quotes in its strings."""
    blank = STRING.sub(lambda match: '"' + "s" * (len(match[0]) - 2) + '"', text)
    outside = [at for at, character in enumerate(blank) if character in '{}[],:"']
    escaped = [at for at, character in enumerate(text) if character == '"' and blank[at] == "s"]
    return outside + escaped


def _dropped(text: str, rng: random.Random) -> str | None:
    at = rng.choice(_places(text))
    return text[:at] + text[at + 1 :]


def _doubled(text: str, rng: random.Random) -> str | None:
    at = rng.choice(_places(text))
    return text[:at] + text[at] + text[at:]


def _swapped(text: str, rng: random.Random) -> str | None:
    at = rng.choice(_places(text)[:-1])
    if at + 1 >= len(text) or text[at] == text[at + 1]:
        return None
    return text[:at] + text[at + 1] + text[at] + text[at + 2 :]


def _lost_line(text: str, rng: random.Random) -> str | None:
    lines = text.split("\n")
    del lines[rng.randrange(len(lines))]
    return "\n".join(lines)


def _second_try(text: str, rng: random.Random) -> str | None:
    """Cut the call off in a string, and write it again on the next line."""
    places = [at for at, character in enumerate(text) if character == '"']
    cut = rng.randrange(places[1], places[-1])
    return f"{text[:cut]}\n{text}"


def _raw_example(text: str, rng: random.Random) -> str | None:
    """Put an example, at the start of a line and without escapes, into a string of the data."""
    data = text.index("{", 1)
    strings = [
        match
        for match in STRING.finditer(text, data)
        if len(match[0]) > 4 and not text.startswith(":", match.end())
    ]
    if not strings:
        return None
    at = rng.choice(strings).start() + 2
    after = rng.choice(("\n", "\\n", "", "\nand so on.\n"))
    return f"{text[:at]}\n{EXAMPLE}{after}{text[at:]}"


KINDS: dict[str, Slip] = {
    "dropped": _dropped,
    "doubled": _doubled,
    "swapped": _swapped,
    "lost_line": _lost_line,
    "second_try": _second_try,
    "raw_example": _raw_example,
}
_BEFORE = ("", "Here it is:\n", "I'll write {it} now.\n\n", "```json\n")
_AFTER = ("", "\nDone.", "\n```\nThat's it: {ok}.\n", "\n\nAnything else?")


def main(count: int) -> None:
    """Print how each kind of slip fared in *count* trials in all."""
    names = ("exact", "rejected", "unseen", "wrong")
    lines = [f"{'slip':14}{'trials':>8}" + "".join(f"{name:>10}" for name in names)]
    for kind in KINDS:
        outcomes = Counter(made.outcome for made in trials(kind, count // len(KINDS)))
        figures = "".join(f"{outcomes[name]:10}" for name in names)
        lines.append(f"{kind:14}{sum(outcomes.values()):8}{figures}")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3_000)
