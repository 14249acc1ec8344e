"""No text that is no reply fires: a sample here, 100 MB and more with ``make soak``."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from ksi_daemon.extraction import PRESETS, extract, protocol
from ksi_daemon.security.provenance import Guard, fingerprints, holds
from tests.false_fires.texts import LIBRARIES, READERS, fires, paths, tally, text_of

SOURCES: Final = Path(__file__).parents[3] / "shared" / "sources"
TEXTS: Final = {path.stem: path.read_text("utf-8") for path in sorted(SOURCES.glob("*.txt"))}
beside = pytest.mark.skipif(not TEXTS, reason="the source documents are not beside the repository")


def test_nothing_fires_in_a_sample_of_libraries() -> None:
    found = tally(6, LIBRARIES, seconds=10)
    assert found.files > 20
    assert found.calls == []
    # A file in a hundred may hold a real mark and no call.
    assert len({each.path for each in found.fired}) <= found.files / 100


def test_source_code_that_speaks_of_json_does_not_fire() -> None:
    names = ("decoder.py", "scanner.py", "encoder.py", "tool.py", "optparse.py", "argparse.py")
    found = [path for path in paths(LIBRARIES) if path.name in names]
    assert len(found) >= len(names)
    assert [each for path in found for each in fires(text_of(path) or "", path)] == []


def test_a_call_in_a_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "reply.txt"
    path.write_text('So: {"event": "a:b", "data": {}}', "utf-8")
    assert {each.preset for each in fires(text_of(path) or "", path)} == {"ksi", "any"}


@beside
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("frame", ["{}", "I was told:\n\n{}\n\nSo I will.", "```\n{}\n```"])
def test_whoever_quotes_the_sources_is_held(name: str, preset: str, frame: str) -> None:
    settings = protocol(preset, mode="lenient", max_calls=1000)
    calls = extract(frame.replace("{}", TEXTS[name]), settings).calls
    guard = Guard(read=fingerprints([TEXTS[name]], settings))
    assert all(hold == "echo" for hold in holds(calls, guard))


@beside
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("preset", READERS)
def test_whoever_quotes_a_part_of_the_sources_is_held(name: str, preset: str) -> None:
    settings = READERS[preset]
    guard = Guard(read=fingerprints([TEXTS[name]], settings))
    lines = TEXTS[name].splitlines(keepends=True)
    breaks = [0, *(n for n, line in enumerate(lines) if not line.strip()), len(lines)]
    fired = []
    for first, last in pairwise(breaks):
        calls = extract("".join(lines[first:last]), settings).calls
        fired += [call for call, hold in zip(calls, holds(calls, guard), strict=True) if not hold]
    assert fired == []


@beside
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("preset", READERS)
def test_the_sources_in_a_block_quote_fire_nothing(name: str, preset: str) -> None:
    quoted = "".join(f"> {line}" for line in TEXTS[name].splitlines(keepends=True))
    assert extract(quoted, READERS[preset]).calls == ()
