"""The whole corpus under preset any, read in every way: nothing depends on repair that need not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from ksi_daemon.extraction import extract, protocol
from tests.properties import sound

CORPUS: Final = Path(__file__).parents[3] / "shared" / "corpus"
ROWS: Final = [
    pytest.param(json.loads(line), id=json.loads(line)["id"])
    for path in sorted(CORPUS.glob("*.jsonl"))
    for line in path.read_text("utf-8").splitlines()
]
pytestmark = pytest.mark.skipif(not ROWS, reason="the shared corpus is not beside the repository")


@pytest.mark.parametrize("row", ROWS)
def test_each_text_is_read_soundly(row: dict[str, Any]) -> None:
    text, settings = row["text"], protocol("any")
    result = extract(text, settings)
    sound.places_are_sound(text, result)
    sound.rejections_speak(text, result)
    sound.spans_hold_their_calls(text, settings, result)
    sound.strict_is_within_lenient(text, settings, result)
    sound.repairs_only_add(text, settings, result)


@pytest.mark.parametrize("row", ROWS)
def test_what_only_a_repair_reads_is_rejected_without(row: dict[str, Any]) -> None:
    mended = extract(row["text"], protocol("any"))
    plain = extract(row["text"], protocol("any", repair="off"))
    if any(call.repairs for call in mended.calls):
        assert len(plain.calls) + len(plain.rejected) >= len(mended.calls)
        assert plain.rejected
    else:
        assert [call.args for call in plain.calls] == [call.args for call in mended.calls]
