"""Cases of source 002 about what comes out of an extraction, and how reliably."""

from __future__ import annotations

import json
import re
import sysconfig
from pathlib import Path

import pytest

from ksi_daemon.extraction import as_event, candidates, extract, protocol, teach
from ksi_daemon.extraction.legacy import complexity
from tests.corruption.slips import trials

KSI = protocol("ksi")
COMPONENTS = Path(__file__).parents[2] / "components"


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


def test_S002_21_both_methods_are_taught_and_when_to_use_which() -> None:
    text = teach(KSI)
    first, second = text.index("Method 1"), text.index("Method 2")
    assert first < text.index('"event"') < second < text.index('"ksi_tool_use"')
    assert len(re.findall(r"^- ", text.partition("Use method 2 when")[2], re.MULTILINE)) >= 3


@pytest.mark.parametrize("path", sorted(COMPONENTS.rglob("*.md")), ids=lambda path: path.stem)
def test_S002_30_components_write_complex_data_as_tool_use(path: Path) -> None:
    # The row speaks of lines, quotes and nesting; backquotes are carried well.
    text = path.read_text("utf-8").replace("`", "")
    direct = [call for call in candidates(text, KSI) if call.dialect == "event"]
    assert {call.name: complexity(call.args) for call in direct if complexity(call.args)} == {}
