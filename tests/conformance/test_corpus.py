"""Every case of the shared corpus.

The corpus lies beside the repository and is no part of it; without it these tests are skipped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from ksi_daemon.extraction import Schemas, extract, protocol

CORPUS: Final = Path(__file__).parents[3] / "shared" / "corpus"
FILES: Final = ("seed_cases.jsonl", "dialects.jsonl")
# Decided otherwise: a block that is cut off, or that names no tool, or that has text for arguments,
# is rejected where the row's parser says nothing; and nothing in a broken block is a call.
DECIDED: Final = {
    "peer-0164": ["malformed_block"],
    "peer-0185": ["unterminated_block"],
    "peer-0246": ["args_json"],
    "peer-0355": ["missing_name"],
    "peer-0384": ["malformed_block"],
    "peer-0297": ["malformed_block"],
    "peer-0319": ["unterminated_block"],
    "peer-0320": ["unterminated_block"],
    "peer-0332": ["malformed_block"],
    "peer-0336": ["unterminated_block"],
    "peer-0338": ["unterminated_block"],
    "peer-0429": ["missing_name"],
    "peer-0469": ["malformed_block"],
    "peer-0552": ["unterminated_block"],
}
DECIDED_CALLS: Final[Mapping[str, list[list[Any]]]] = {
    # A call without arguments is one, where the row's parser wants them.
    "peer-0250": [["manage_user_memory", {}]],
    # Whether there is such a tool is for the router to say.
    "peer-0216": [["invalid_func", {"city": "Beijing"}]],
    "peer-0277": [["nonexistent_func", {"x": 1}]],
    # A key without a value is not dropped.
    "peer-0332": [],
    # A name on a line of its own is prose: so begins any listing of a file.
    "peer-0110": [],
    "peer-0384": [],
    # Where a string ends that holds its own quotes unescaped would be a guess.
    "peer-0469": [],
    # Data before a call hides nothing, nor does a bracket that is never closed.
    "peer-0542": [["get_conditions", {"location": "San Francisco"}]],
    "peer-0543": [["get_conditions", {"location": "San Francisco"}]],
    "peer-0547": [["search", {"query": "What is the capital of Canada?"}]],
}
# Rows whose text can be told from JSON only by the schema of the tool.
TOOLS: Final[Mapping[str, Schemas]] = {
    "peer-0283": {"search": {"properties": {"query": {"type": "string"}}}}
}
# Cases whose row leaves out the code that CONFORMANCE.md has for them.
UNTOLD: Final = DECIDED | {f"S000-{number}": ["extra_text"] for number in (10, 11, 12)}


def rows() -> list[Any]:
    found = [
        json.loads(line)
        for name in FILES
        if (CORPUS / name).exists()
        for line in (CORPUS / name).read_text("utf-8").splitlines()
    ]
    return [pytest.param(row, id=row["id"]) for row in found]


@pytest.mark.conformance
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the shared corpus is not beside the repository")
@pytest.mark.parametrize("row", rows())
def test_corpus(row: dict[str, Any]) -> None:
    tools = TOOLS.get(row["id"])
    result = extract(row["text"], protocol(row["preset"], mode=row["mode"]), tools=tools)
    calls = [[call.name, call.args] for call in result.calls]
    assert calls == DECIDED_CALLS.get(row["id"], row["calls"])
    if row.get("repairs"):
        assert list(result.calls[0].repairs) == row["repairs"]
    rejected = sorted(block.code for block in result.rejected)
    assert rejected == UNTOLD.get(row["id"], sorted(row.get("expect_rejected", ())))


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the shared corpus is not beside the repository")
def test_the_corpus_was_found() -> None:
    assert len(rows()) >= 564
