"""Cases of source 002 about what comes out of an extraction, and how reliably."""

from __future__ import annotations

import json
import sysconfig
from pathlib import Path

import pytest

from ksi_daemon.extraction import as_event, extract, protocol
from tests.corruption.slips import trials

KSI = protocol("ksi")


def test_S002_3_the_keys_of_a_tool_use_block() -> None:
    block = {"type": "ksi_tool_use", "id": "ksiu_7", "name": "a:b", "input": {"x": [1]}}
    [call] = extract(f"Well: {json.dumps(block)}", KSI).calls
    assert as_event(call) == {
        "event": "a:b",
        "data": {"x": [1]},
        "_tool_use_id": "ksiu_7",
        "_extracted_via": "ksi_tool_use",
    }


def test_S002_4_the_direct_form_is_left_as_it_is() -> None:
    written = {"event": "a:b", "data": {"_x": 1, "y": {"z": None}}}
    [call] = extract(json.dumps(written), KSI).calls
    assert as_event(call) == written


def test_S002_34_complex_content_comes_out_and_nothing_else_fires() -> None:
    made = list(trials("clean", 200))
    assert [each.outcome for each in made] == ["exact"] * 200
    library = Path(sysconfig.get_path("stdlib"))
    texts = [path.read_text(errors="replace") for path in sorted(library.glob("*.py"))]
    assert len(texts) >= 150
    assert [call for text in texts for call in extract(text, KSI).calls] == []


@pytest.mark.parametrize("depth", [1, 3, 6])
def test_S002_34_json_within_json_within_json(depth: int) -> None:
    text = "the end"
    for _ in range(depth):
        text = json.dumps({"event": "inner:call", "data": {"text": text}})
    block = {"event": "outer:call", "data": {"text": text}}
    [call] = extract(json.dumps(block), KSI).calls
    assert (call.name, call.args) == ("outer:call", {"text": text})
