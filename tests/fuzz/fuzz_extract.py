"""A coverage-guided fuzzer's way into the extractor (``make fuzz SECONDS=600``).

The fuzzer's bytes become a text in which marks of every dialect are single bytes, so that it finds
shapes, not spellings. Each text is held to what must hold for every text; a short one is repeated
now and then, and must not cost more than its length is worth. What fails is written to a file by
the fuzzer; ``python -m tests.fuzz.fuzz_extract FILE`` shows it, and the text belongs into
``findings.py`` as a row.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import atheris

with atheris.instrument_imports(include=["ksi_daemon.extraction"]):
    from ksi_daemon.extraction import PRESETS, Protocol, extract, protocol
    from ksi_daemon.extraction.dialects import DIALECTS

from tests.fuzz.findings import check

__all__ = ["Input", "decoded", "main"]

CHARACTERS: Final = 30_000  # of a text that is repeated
SECONDS: Final = 1.0  # for those; a linear scan needs some 30 ms
STOPS: Final = (None, "stop", "length")

_READERS: Final[tuple[Protocol, ...]] = tuple(
    {
        (settings.mode, settings.dialects): settings
        for name in PRESETS
        for settings in (protocol(name), protocol(name, mode="lenient"))
    }.values()
)
_ARGS: Final[Mapping[str, object]] = MappingProxyType({"p": "v}\n\"'", "n": [1, {"k": None}]})


def _tokens() -> tuple[str, ...]:
    calls = [each.write("a:b", dict(_ARGS), "ksiu_1") for each in DIALECTS.values()]
    markers = [marker for each in DIALECTS.values() for marker in each.markers]
    words = [
        '"event":',
        '"data":{',
        '"a:b"',
        "```",
        "```json\n",
        "~~~",
        "<think>",
        "True",
        "// x\n",
    ]
    halves = [call[: len(call) // 2] for call in calls] + [call[len(call) // 2 :] for call in calls]
    quoted = [json.dumps(calls[0]), "\ud800", "“", "\\u0022"]
    return tuple(dict.fromkeys((*words, *markers, *quoted, *calls, *halves)))


TOKENS: Final = _tokens()


class Input(NamedTuple):
    """What the fuzzer asks for: a text, how to read it, whether to measure it repeated."""

    text: str
    settings: Protocol
    stop: str | None
    repeated: bool


def decoded(data: bytes) -> Input:
    """Return the input that *data* stands for: three bytes of settings, then the text.

    A byte from 128 on and the one behind it are a token, any other is a character.
    """
    reader, stop, repeat = (*data[:3], 0, 0, 0)[:3]
    pieces: list[str] = []
    rest = iter(data[3:])
    for byte in rest:
        pieces.append(chr(byte) if byte < 128 else TOKENS[next(rest, 0) % len(TOKENS)])
    settings = _READERS[reader % len(_READERS)]
    return Input("".join(pieces), settings, STOPS[stop % len(STOPS)], repeat % 32 == 1)


def run(data: bytes) -> None:
    """Hold the text of *data* to what must hold; print it if it does not."""
    found = decoded(data)
    try:
        check(found.text, found.settings, found.stop)
        if found.repeated and found.text:
            _check_repeated(found.text, found.settings)
    except Exception:
        # The bytes alone say it only as long as no dialect is added.
        sys.stderr.write(f"preset {found.settings.name}, {found.settings.mode}: {found.text!r}\n")
        raise


def _check_repeated(text: str, settings: Protocol) -> None:
    repeated = text * (CHARACTERS // len(text))
    began = time.process_time()
    extract(repeated, settings)
    assert time.process_time() - began < SECONDS, "slow when repeated"


def main(arguments: list[str]) -> None:
    """Fuzz, or show the input in the file that is the only argument."""
    if len(arguments) == 2 and not arguments[1].startswith("-"):
        with open(arguments[1], "rb") as file:
            sys.stdout.write(f"{decoded(file.read())}\n")
        return
    atheris.Setup(arguments, run)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
