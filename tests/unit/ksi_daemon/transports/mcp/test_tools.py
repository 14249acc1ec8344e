from __future__ import annotations

from pathlib import Path
from typing import Any

import mcp_types as mcp
import msgspec
import pytest

from ksi_daemon import registry
from ksi_daemon.errors import InvalidData
from ksi_daemon.files import File, FileStore, KeptFile
from ksi_daemon.registry import handles
from ksi_daemon.router import Context, Nothing
from ksi_daemon.security import Principal
from ksi_daemon.testing import running_router
from ksi_daemon.transports.mcp.tools import described, failed, names_of, offered, succeeded

PIXEL = b"\x89PNG\r\n\x1a\n"


class Text(msgspec.Struct, forbid_unknown_fields=True):
    text: str
    times: int = 1


class House:
    @handles("house:say", example={"text": "hi"})
    async def say(self, data: Text, ctx: Context) -> str:
        """Say a text. It is heard.

        More that no model needs."""
        return data.text

    @handles("house:look", effect="observe", inline=True)
    def look(self, data: Nothing, ctx: Context) -> dict[str, Any]:
        """Look around."""
        return {}

    @handles("house:move", effect="egress", own="agent_id")
    async def move(self, data: dict[str, Any], ctx: Context) -> None:
        """Move out."""

    @handles("house:burn", effect="admin")
    async def burn(self, data: Nothing, ctx: Context) -> None:
        """Burn it down."""


def caller(*allow: str, ask: tuple[str, ...] = (), deny: tuple[str, ...] = ()) -> Principal:
    return Principal("client", "mcp:1", "mcp:1", allow, ask=ask, deny=deny)


@pytest.mark.parametrize(
    ("principal", "events"),
    [
        pytest.param(caller(), [], id="nothing is granted by itself"),
        pytest.param(caller("house:look"), ["house:look"], id="by name"),
        pytest.param(
            caller("*"), ["house:look", "house:say"], id="not what is an agent's, not admin's"
        ),
        pytest.param(caller("*", ask=("house:say",)), ["house:look"], id="not what needs a person"),
        pytest.param(caller("*", deny=("house:say",)), ["house:look"], id="not what is denied"),
        pytest.param(caller("house:burn"), ["house:burn"], id="admin's by name"),
    ],
)
async def test_which_events_are_tools(principal: Principal, events: list[str]) -> None:
    async with running_router(House()) as (router, _):
        assert [each.event for each in offered(router, principal)] == events


async def test_names_are_those_of_all_hosts_and_lead_back() -> None:
    async with running_router(House()) as (router, _):
        for name in ("house_say", "a.b", "x" * 100):
            router.registry.add(
                registry.tool(name, lambda data, ctx: None, schema={"type": "object"}, summary="")
            )
        names = names_of(router)
        events = router.registry.names()
    natives = [names.to_native(each) for each in events]
    assert len(set(natives)) == len(events)
    assert all(len(each) <= 64 and each.replace("_", "").isalnum() for each in natives)
    assert [names.to_original(each) for each in natives] == events
    assert names.to_native("house:look") == "house_look"
    assert names.to_native("house_say") == "house_say"
    assert names.to_native("house:say").startswith("house_say_")


async def test_how_a_tool_is_described() -> None:
    async with running_router(House()) as (router, _):
        [say] = router.registry.handlers("house:say")
        [look] = router.registry.handlers("house:look")
    tool = described(say, "house_say").model_dump(by_alias=True, exclude_none=True)
    assert tool == {
        "name": "house_say",
        "title": "house:say",
        "description": 'Say a text. It is heard.\n\nExample: {"text":"hi"}',
        "inputSchema": {
            "title": "Text",
            "type": "object",
            "properties": {"text": {"type": "string"}, "times": {"type": "integer", "default": 1}},
            "required": ["text"],
            "additionalProperties": False,
        },
        "annotations": {
            "title": "house:say",
            "readOnlyHint": False,
            "destructiveHint": True,
            "openWorldHint": False,
        },
    }
    reading = described(look, "house_look")
    assert reading.description == "Look around."
    assert reading.annotations is not None
    assert reading.annotations.read_only_hint is True


@pytest.mark.parametrize(
    ("result", "text", "structured"),
    [
        pytest.param(b'{"a": [1]}', '{"a": [1]}', {"a": [1]}, id="an object is both"),
        pytest.param(b'"plain \\"text\\""', 'plain "text"', None, id="a text is a text"),
        pytest.param(b"[1,2]", "[1,2]", None, id="a list"),
        pytest.param(b"null", "null", None, id="nothing"),
    ],
)
def test_what_a_result_is(tmp_path: Path, result: bytes, text: str, structured: Any) -> None:
    told = succeeded(msgspec.Raw(result), FileStore(tmp_path))
    assert told == mcp.CallToolResult(
        content=[mcp.TextContent(text=text)], structured_content=structured
    )


def test_files_are_shown_as_what_they_are(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    image, audio, pdf, text, lie = [
        store.keep(each)
        for each in (
            File(PIXEL, "image/png"),
            File(b"RIFF", "audio/wav"),
            File(b"%PDF", "application/pdf"),
            File(b"hello", "text/plain"),
            File(b"\xff", "text/plain"),
        )
    ]
    result = msgspec.json.encode({"deep": [image, audio, pdf, text, lie]})
    told = succeeded(msgspec.Raw(result), store)
    assert told.content == [
        mcp.TextContent(text=result.decode()),
        mcp.ImageContent(data="iVBORw0KGgo=", mime_type="image/png"),
        mcp.AudioContent(data="UklGRg==", mime_type="audio/wav"),
        embedded(mcp.BlobResourceContents, pdf, blob="JVBERg=="),
        embedded(mcp.TextResourceContents, text, text="hello"),
        embedded(mcp.BlobResourceContents, lie, blob="/w=="),
    ]
    assert told.structured_content is None


def embedded(kind: Any, kept: KeptFile, **content: str) -> mcp.EmbeddedResource:
    resource = kind(uri=f"file://{kept.path}", mime_type=kept.media_type, **content)
    return mcp.EmbeddedResource(resource=resource)


@pytest.mark.parametrize("digest", ["0" * 64, "../../../../etc/passwd", "x", "..", ""])
def test_a_reference_to_what_is_not_kept_shows_nothing(tmp_path: Path, digest: str) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    lie = {"path": "/etc/passwd", "media_type": "image/png", "bytes": 6, "sha256": digest}
    told = succeeded(msgspec.Raw(msgspec.json.encode(lie)), FileStore(tmp_path))
    assert [each.type for each in told.content] == ["text"]


def test_a_large_picture_is_told_of_and_not_shown(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    kept = store.keep(File(b"x" * (1024 * 1024 + 1), "image/png"))
    told = succeeded(msgspec.Raw(msgspec.json.encode(kept)), store)
    assert [each.type for each in told.content] == ["text"]


def test_an_error_is_a_result_with_its_code() -> None:
    error = InvalidData("3 is no text", hint="give a text", details={"path": "text"})
    assert failed(error.info()) == mcp.CallToolResult(
        content=[mcp.TextContent(text="args_schema: 3 is no text\nhint: give a text")],
        structured_content={
            "error": {
                "code": "args_schema",
                "message": "3 is no text",
                "hint": "give a text",
                "retryable": False,
                "details": {"path": "text"},
            }
        },
        is_error=True,
    )
