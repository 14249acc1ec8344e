"""Plugins: what a file adds, what becomes of one that is changed, broken or gone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from structlog.testing import capture_logs

from ksi_daemon import plugins as module
from ksi_daemon import security
from ksi_daemon.files import FileStore
from ksi_daemon.plugins import Plugins
from ksi_daemon.router import Router, Submission
from ksi_daemon.testing import running_router

NOTES = '''
from __future__ import annotations

from pydantic import BaseModel

from ksi_daemon.router import Context, handles


class SaveNote(BaseModel):
    text: str


@handles("notes:save")
async def save(note: SaveNote, ctx: Context) -> dict[str, str]:
    """Save a note."""
    return {"saved": note.text}
'''

WITH_A_LIFE = '''
from ksi_daemon.router import Context, Nothing, handles


class Counter:
    def __init__(self, router):
        self.router = router
        self.count = 0

    @handles("counter:next", inline=True)
    def next(self, data: Nothing, ctx: Context) -> int:
        """Count."""
        self.count += 1
        return self.count


def plugin(router):
    return Counter(router)
'''


TOOL = '''
from ksi_daemon.tools import tool


@tool
def double(number: int) -> int:
    """Double a number."""
    return number * {factor}
'''


@pytest.fixture(autouse=True)
def _forget_plugins() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name.startswith("ksi_plugins.")]:
        del sys.modules[name]


def plugins_of(router: Router, directory: Path) -> Plugins:
    return Plugins(router, directory, FileStore(directory / "files"))


async def asked(router: Router, event: str, data: object) -> Any:
    raw = msgspec.Raw(msgspec.json.encode(data))
    submission = Submission(event=event, data=raw, principal=security.client(1000, 1))
    return (await router.submit(submission)).outcome


async def result_of(router: Router, event: str, data: object) -> Any:
    return msgspec.json.decode((await asked(router, event, data)).result)


@pytest.mark.parametrize(
    ("source", "event", "data", "result"),
    [
        pytest.param(NOTES, "notes:save", {"text": "a"}, {"saved": "a"}, id="functions"),
        pytest.param(WITH_A_LIFE, "counter:next", {}, 1, id="an object of its own"),
        pytest.param(TOOL.format(factor=2), "double", {"number": 4}, 8, id="a tool"),
    ],
)
async def test_a_file_adds_its_handlers(
    tmp_path: Path, source: str, event: str, data: object, result: object
) -> None:
    (tmp_path / "mine.py").write_text(source)
    async with running_router() as (router, _):
        plugins = plugins_of(router, tmp_path)
        assert await plugins.load() == ["mine"]
        assert await result_of(router, event, data) == result
        assert plugins.source(event) == "mine.py"


async def test_files_are_included_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.py").write_text("")
    (tmp_path / "notes.txt").write_text("no plugin")
    async with running_router() as (router, _):
        assert await plugins_of(router, tmp_path).load() == ["a", "b"]


async def test_a_directory_that_is_not_there_holds_no_plugins(tmp_path: Path) -> None:
    async with running_router() as (router, _):
        assert await plugins_of(router, tmp_path / "absent").load() == []


@pytest.mark.parametrize(
    ("source", "error"),
    [
        pytest.param("def (", "SyntaxError", id="syntax"),
        pytest.param("import no_such_module", "ModuleNotFoundError", id="import"),
        pytest.param("raise SystemExit(1)", "SystemExit: 1", id="exit"),
        pytest.param(
            "def plugin(router):\n    raise ValueError('no')", "ValueError: no", id="its function"
        ),
        pytest.param(
            "from ksi_daemon.router import handles\n"
            "@handles('no name')\n"
            "async def f(data, ctx): ...",
            "ValueError: 'no name' is no event name",
            id="a handler that cannot be",
        ),
        pytest.param(
            TOOL.format(factor=2) + "@tool(name='notes:save')\ndef again() -> None: ...\n",
            "ValueError: 'notes:save' is registered already",
            id="a name that is taken",
        ),
    ],
)
async def test_a_plugin_that_fails_is_told_and_left_out(
    tmp_path: Path, source: str, error: str
) -> None:
    (tmp_path / "good.py").write_text(NOTES)
    (tmp_path / "zbad.py").write_text(source)
    async with running_router() as (router, _):
        plugins = plugins_of(router, tmp_path)
        with capture_logs() as logs:
            assert await plugins.load() == ["good"]
        assert [(entry["event"], entry["plugin"]) for entry in logs] == [("plugin_failed", "zbad")]
        assert router.registry.names() == ["notes:save"]
    [broken] = plugins.broken
    assert broken.plugin == "zbad.py"
    assert broken.error.startswith(error)


async def test_a_file_that_comes_changes_and_goes_is_seen_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / "mine.py"
    async with running_router() as (router, _):
        plugins = plugins_of(router, tmp_path)
        assert await plugins.load() == []
        path.write_text(TOOL.format(factor=2))
        written = path.stat().st_mtime_ns // 10**9 * 10**9
        os.utime(path, ns=(1, written))
        await plugins.refresh()
        assert await result_of(router, "double", {"number": 4}) == 8
        # The same size within the same second: byte code that is kept by these would be stale.
        path.write_text(TOOL.format(factor=3))
        os.utime(path, ns=(1, written + 1))
        await plugins.refresh()
        assert await result_of(router, "double", {"number": 4}) == 12
        path.unlink()
        await plugins.refresh()
        assert (await asked(router, "double", {"number": 4})).status == "unknown"


async def test_a_file_that_breaks_takes_its_tools_away_until_it_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(TOOL.format(factor=2))
    async with running_router() as (router, _):
        plugins = plugins_of(router, tmp_path)
        await plugins.load()
        path.write_text("def (")
        with capture_logs():
            await plugins.refresh()
        assert (router.registry.names(), len(plugins.broken)) == ([], 1)
        path.write_text(TOOL.format(factor=5))
        await plugins.refresh()
        assert await result_of(router, "double", {"number": 4}) == 20
        assert plugins.broken == []


async def test_a_file_that_did_not_change_is_not_loaded_again(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(WITH_A_LIFE)
    async with running_router() as (router, _):
        plugins = plugins_of(router, tmp_path)
        await plugins.load()
        await result_of(router, "counter:next", {})
        await plugins.refresh()
        assert await result_of(router, "counter:next", {}) == 2


async def test_the_watch_sees_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.001)
    (tmp_path / "mine.py").write_text(TOOL.format(factor=2))
    async with running_router() as (router, _), anyio.create_task_group() as tasks:
        tasks.start_soon(plugins_of(router, tmp_path).watch)
        with anyio.fail_after(20):
            while not router.registry.names():
                await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
        assert router.registry.names() == ["double"]


async def test_a_file_that_hangs_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOAD_S", 0.05)
    end = tmp_path / "end"
    waiting = f"import pathlib, time\nwhile not pathlib.Path({str(end)!r}).exists():\n"
    (tmp_path / "a.py").write_text(f"{waiting}    time.sleep(0.01)\n")
    async with running_router() as (router, _):
        plugins = plugins_of(router, tmp_path)
        with capture_logs():
            assert await plugins.load() == []
        end.touch()
    assert plugins.broken == [("a.py", "TimeoutError")]
