"""Texts that nobody wrote as a reply, and what fires in them: nothing should.

Source code, documents, data and package metadata of this machine are read under every preset as if
a model had written them. Every call that comes out is printed with its place, for a person to
judge: a false fire, or a file that really shows a call. So is every rejection, for only a real mark
may cause one.

    python -m tests.false_fires.texts 100       reads 100 MB and prints what fired
"""

from __future__ import annotations

import gzip
import os
import random
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from ksi_daemon.extraction import PRESETS, Protocol, extract, protocol

__all__ = ["LIBRARIES", "READERS", "Fired", "Tally", "fires", "paths", "tally"]

MEGABYTE: Final = 1 << 20
MAX_CHARS: Final = MEGABYTE  # of one file
PEEK: Final = 4096  # what tells text from other data
LIBRARIES: Final = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"))
ROOTS: Final = (*LIBRARIES, "/usr/share", "/usr/include", "/usr/lib/python3")
BINARY: Final = (".pyc", ".so", ".mo", ".a", ".jar", ".png", ".ttf", ".whl", ".o", ".exe")
EXCERPT: Final = 100
README: Final = (Path(__file__).resolve().parents[2] / "README.md").read_text("utf-8")

# What differs in its name alone finds the same. A preset that wants the whole reply to be one
# object refuses every text, so it is read leniently.
READERS: Final[Mapping[str, Protocol]] = MappingProxyType(
    {name: protocol(name, mode="lenient") for name in PRESETS if name != "native_auto"}
)


class Fired(NamedTuple):
    """A call, or a rejected block, in a text that is no reply. *code* is empty for a call."""

    preset: str
    dialect: str
    code: str
    path: Path
    excerpt: str


class Tally(NamedTuple):
    """What was read, in characters and files, and what fired."""

    characters: int
    files: int
    fired: tuple[Fired, ...]

    @property
    def calls(self) -> list[Fired]:
        """The calls that are not those of our own README, which the package's metadata repeats."""
        return [each for each in self.fired if not each.code and each.excerpt not in README]


def paths(roots: Sequence[str] = ROOTS, *, seed: int = 0) -> list[Path]:
    """Return all files under *roots* that may be text, in an order that *seed* shuffles."""
    found = {
        os.path.join(directory, name)
        for root in roots
        for directory, _, names in os.walk(root)
        for name in names
        if not name.endswith(BINARY)
    }
    shuffled = sorted(found)
    random.Random(seed).shuffle(shuffled)
    return [Path(path) for path in shuffled]


def text_of(path: Path) -> str | None:
    """Return what *path* holds, None if that is not text."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError):
        return None
    if b"\0" in content[:PEEK]:
        return None
    try:
        return content[: 4 * MAX_CHARS].decode("utf-8")[:MAX_CHARS]
    except UnicodeDecodeError:
        return content[:MAX_CHARS].decode("latin-1")


def fires(text: str, path: Path) -> Iterator[Fired]:
    """Yield what fires in *text* under any preset."""
    for preset, settings in READERS.items():
        result = extract(text, settings)
        for each in (*result.calls, *result.rejected):
            code = getattr(each, "code", "")
            yield Fired(preset, each.dialect, code, path, text[each.start : each.end][:EXCERPT])


def tally(
    megabytes: float, roots: Sequence[str] = ROOTS, *, seconds: float = float("inf")
) -> Tally:
    """Read so many *megabytes*, or for so many *seconds*, whatever is less."""
    found = paths(roots)
    until = time.monotonic() + seconds
    characters = files = 0
    fired: list[Fired] = []
    for path in found:
        if characters >= megabytes * MEGABYTE or time.monotonic() > until:
            break
        text = text_of(path)
        if text:
            characters += len(text)
            files += 1
            fired += fires(text, path)
    return Tally(characters, files, tuple(fired))


def report(found: Tally) -> str:
    """Return the figures by preset, and every place where something fired."""
    calls = Counter(each.preset for each in found.calls)
    blocks = Counter(each.preset for each in found.fired if each.code)
    lines = [f"{found.characters / MEGABYTE:.1f} MB in {found.files:,} files"]
    lines += [f"{'preset':16}{'calls':>8}{'rejected':>10}"]
    lines += [f"{name:16}{calls[name]:8}{blocks[name]:10}" for name in READERS]
    lines += [
        f"{each.code or 'CALL':20} {each.preset}/{each.dialect}  {each.path}\n    {each.excerpt!r}"
        for each in sorted(found.fired, key=lambda each: (each.code, each.path, each.preset))
    ]
    return "\n".join(lines) + "\n"


def main(megabytes: float) -> int:
    """Print what fired in so many *megabytes*; 1 if there was a call."""
    found = tally(megabytes)
    sys.stdout.write(report(found))
    return 1 if found.calls else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 10))
