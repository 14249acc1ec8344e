"""tool:list and tool:call, as an operator and as an agent."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from ksi_daemon import security
from ksi_daemon.files import FileStore
from ksi_daemon.plugins import Plugins
from ksi_daemon.router import Context, Nothing, Router, Submission, Submitted, handles
from ksi_daemon.security import Principal
from ksi_daemon.services.tools import Tools
from ksi_daemon.testing import running_router

OPERATOR = security.client(1000, 1)

WORDS = '''
from ksi_daemon.tools import tool


@tool
def count_words(text: str, least: int = 1) -> int:
    """Count the words of a text."""
    return sum(len(word) >= least for word in text.split())


@tool(effect="admin")
def forget() -> None:
    """Forget all."""
'''


class Own:
    """An event of the daemon's own, and what tool:list asks of agents."""

    @handles("own:ping", inline=True)
    def ping(self, data: Nothing, ctx: Context) -> str:
        """Answer."""
        return f"pong to {ctx.principal.source}"

    @handles("agent:info", effect="observe")
    async def info(self, data: dict[str, Any], ctx: Context) -> dict[str, Any]:
        """Tell about an agent."""
        return {"told": [{"name": "own:ping"}, {"name": "count_words"}]}


@pytest.fixture(autouse=True)
def _forget_plugins() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name.startswith("ksi_plugins.")]:
        del sys.modules[name]


@asynccontextmanager
async def house(directory: Path) -> AsyncIterator[Router]:
    async with running_router(Own()) as (router, _):
        plugins = Plugins(router, directory, FileStore(directory / "files"))
        await plugins.load()
        router.include(Tools(router, plugins))
        yield router


async def submit(
    router: Router, event: str, data: object, principal: Principal = OPERATOR
) -> Submitted:
    raw = msgspec.Raw(msgspec.json.encode(data))
    return await router.submit(Submission(event=event, data=raw, principal=principal))


async def names(router: Router, data: object, principal: Principal = OPERATOR) -> list[str]:
    listed = (await submit(router, "tool:list", data, principal)).result()
    return [each["name"] for each in listed["tools"]]


async def test_a_tool_is_listed_with_what_it_takes(tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text(WORDS)
    async with house(tmp_path) as router:
        listed = (await submit(router, "tool:list", {"pattern": "count*"})).result()
    assert listed == {
        "tools": [
            {
                "name": "count_words",
                "description": "Count the words of a text.",
                "class": "write",
                "source": "words.py",
                "schema": {
                    "type": "object",
                    "properties": {
                        "text": {"type": "string"},
                        "least": {"type": "integer", "default": 1},
                    },
                    "required": ["text"],
                    "additionalProperties": False,
                },
                "example": None,
            }
        ],
        "broken": [],
    }


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        pytest.param({}, ["count_words", "forget"], id="tools"),
        pytest.param({"pattern": "*words"}, ["count_words"], id="by pattern"),
        pytest.param({"agent_id": "a"}, ["own:ping", "count_words"], id="of an agent"),
        pytest.param({"events": True, "pattern": "own:*"}, ["own:ping"], id="and events"),
    ],
)
async def test_what_is_listed(tmp_path: Path, asked: dict[str, Any], found: list[str]) -> None:
    (tmp_path / "words.py").write_text(WORDS)
    async with house(tmp_path) as router:
        assert await names(router, asked) == found


async def test_S003_49_an_agent_is_shown_what_it_may_call_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text(WORDS)
    agent = security.agent("a", ("tool:*", "count_words"))
    async with house(tmp_path) as router:
        shown = await names(router, {}, agent)
        every = await names(router, {})
        ends = {}
        for name in every:
            call = {"name": name, "arguments": {"text": "a b"} if name == "count_words" else {}}
            ends[name] = (await submit(router, "tool:call", call, agent)).outcome
    assert shown == ["count_words"]
    assert {name for name, end in ends.items() if end.status == "handled"} == set(shown)
    assert [end.error.code for end in ends.values() if end.error] == ["denied"]


async def test_a_call_is_an_event_with_the_rights_of_who_asks(tmp_path: Path) -> None:
    agent = security.agent("a", ("tool:call",))
    async with house(tmp_path) as router:
        allowed = await submit(router, "tool:call", {"name": "own:ping"})
        denied = await submit(router, "tool:call", {"name": "own:ping"}, agent)
    assert allowed.result() == "pong to handler:tool:call"
    assert denied.outcome.error is not None
    assert denied.outcome.error.code == "denied"


async def test_a_file_that_was_dropped_in_just_now_is_listed_and_called(tmp_path: Path) -> None:
    async with house(tmp_path) as router:
        (tmp_path / "words.py").write_text(WORDS)
        assert await names(router, {}) == ["count_words", "forget"]
    (tmp_path / "words.py").unlink()
    async with house(tmp_path) as router:
        (tmp_path / "words.py").write_text(WORDS)
        call = {"name": "count_words", "arguments": {"text": "one two", "least": 4}}
        assert (await submit(router, "tool:call", call)).result() == 0


@pytest.mark.parametrize(
    ("call", "code"),
    [
        pytest.param({"name": "count_word", "arguments": {}}, "unknown_event", id="unknown"),
        pytest.param({"name": "count_words", "arguments": {}}, "args_schema", id="missing"),
        pytest.param({"name": "tool:call", "arguments": {}}, "args_schema", id="itself"),
    ],
)
async def test_S003_44_what_cannot_be_called(
    tmp_path: Path, call: dict[str, Any], code: str
) -> None:
    (tmp_path / "words.py").write_text(WORDS)
    async with house(tmp_path) as router:
        error = (await submit(router, "tool:call", call)).outcome.error
    assert error is not None
    assert error.code == code
    if code == "unknown_event":
        assert error.hint == "did you mean 'count_words'?"


async def test_a_call_of_calls_comes_to_an_end(tmp_path: Path) -> None:
    call: dict[str, Any] = {"name": "own:ping"}
    for _ in range(20):
        call = {"name": "tool:call", "arguments": call}
    async with house(tmp_path) as router:
        error = (await submit(router, "tool:call", call)).outcome.error
    assert error is not None
    assert error.code == "hop_limit"


async def test_broken_files_are_told_to_people_only(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def (")
    async with house(tmp_path) as router:
        with capture_logs():
            told = (await submit(router, "tool:list", {})).result()
        agent = security.agent("a", ("tool:list",))
        hidden = (await submit(router, "tool:list", {}, agent)).result()
    assert [each["plugin"] for each in told["broken"]] == ["bad.py"]
    assert hidden["broken"] == []
