"""The rows of the shared corpus, in pieces: the same calls as in one (CONFORMANCE.md section 4.5).

The corpus lies beside the repository and is no part of it; without it these tests are skipped.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from ksi_daemon.extraction import protocol
from tests.streaming import streams_soundly

CORPUS: Final = Path(__file__).parents[3] / "shared" / "corpus"
FILES: Final = ("seed_cases.jsonl", "dialects.jsonl")
CUTS: Final = 8  # places at which a text is cut in two: all of them would take an hour


def rows() -> list[Any]:
    return [
        pytest.param(row, id=row["id"])
        for name in FILES
        if (CORPUS / name).exists()
        for row in map(json.loads, (CORPUS / name).read_text("utf-8").splitlines())
    ]


@pytest.mark.conformance
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the shared corpus is not beside the repository")
@pytest.mark.parametrize("row", rows())
def test_rows_in_pieces(row: dict[str, Any]) -> None:
    text = row["text"]
    settings = protocol(row["preset"], mode=row["mode"])
    for place in range(1, len(text), max(1, len(text) // CUTS)):
        streams_soundly(text, settings, [place], "stop")
    for thought in (True, False):
        settings = protocol(row["preset"], mode=row["mode"], open_thought=thought)
        streams_soundly(text, settings, range(1, len(text)))
