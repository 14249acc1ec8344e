"""Results of MCP as ours: texts, objects, files beside, links that are only told."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from ksi_daemon.files import File, KeptFile
from ksi_daemon.services.mcp.model import Result
from ksi_daemon.services.mcp.results import content_of, value_of

DATA = base64.b64encode(b"abc").decode()


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


@pytest.mark.parametrize(
    ("result", "value"),
    [
        pytest.param(Result(content=[text("a")]), "a", id="text"),
        pytest.param(Result(content=[text("a"), text("b")]), "a\nb", id="texts"),
        pytest.param(Result(), "", id="nothing"),
        pytest.param(Result(structured={"a": 1}), {"a": 1}, id="an object"),
        pytest.param(
            Result(content=[text('{"a": 1}')], structured={"a": 1}),
            '{"a": 1}',
            id="an object that is told as text too",
        ),
        pytest.param(
            Result(content=[{"type": "resource", "resource": {"uri": "u", "text": "t"}}]),
            "t",
            id="a resource of text",
        ),
        pytest.param(
            Result(content=[{"type": "hologram"}]), "[content of type 'hologram']", id="unknown"
        ),
        pytest.param(
            Result(content=[{"type": "image", "data": "!", "mimeType": "image/png"}]),
            "[a file that is no base64]",
            id="no base64",
        ),
        pytest.param(
            Result(content=[text("see"), {"type": "resource_link", "uri": "file:///x"}]),
            {"text": "see", "links": [{"uri": "file:///x", "name": ""}]},
            id="a link",
        ),
    ],
)
def test_value(result: Result, value: object) -> None:
    content = content_of(result)
    assert content.files == []
    assert value_of(result, content, []) == value


@pytest.mark.parametrize(
    ("block", "file"),
    [
        pytest.param(
            {"type": "image", "data": DATA, "mimeType": "image/png"},
            File(b"abc", "image/png"),
            id="image",
        ),
        pytest.param(
            {"type": "audio", "data": DATA, "mimeType": "audio/wav"},
            File(b"abc", "audio/wav"),
            id="audio",
        ),
        pytest.param(
            {"type": "resource", "resource": {"uri": "demo://x", "blob": DATA}},
            File(b"abc", "application/octet-stream", "demo://x"),
            id="a resource of bytes",
        ),
    ],
)
def test_S003_47_files_are_taken_out_of_the_text(block: dict[str, Any], file: File) -> None:
    result = Result(content=[text("here"), block])
    content = content_of(result)
    assert content.files == [file]
    kept = KeptFile("path", file.media_type, 3, "hash")
    assert value_of(result, content, [kept]) == {"text": "here", "files": [kept]}
