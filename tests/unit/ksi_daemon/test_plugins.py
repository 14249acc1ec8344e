from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from ksi_daemon import security
from ksi_daemon.plugins import include_found
from ksi_daemon.router import Submission
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


@pytest.fixture(autouse=True)
def _forget_plugins() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name.startswith("ksi_plugins.")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("source", "event", "data", "result"),
    [
        pytest.param(NOTES, "notes:save", b'{"text": "a"}', {"saved": "a"}, id="functions"),
        pytest.param(WITH_A_LIFE, "counter:next", b"{}", 1, id="an object of its own"),
    ],
)
async def test_a_file_adds_its_handlers(
    tmp_path: Path, source: str, event: str, data: bytes, result: object
) -> None:
    (tmp_path / "mine.py").write_text(source)
    async with running_router() as (router, _):
        assert include_found(router, tmp_path) == ["mine"]
        client = security.client(1000, 1)
        asked = Submission(event=event, data=msgspec.Raw(data), principal=client)
        assert (await router.submit(asked)).result() == result


async def test_files_are_included_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.py").write_text("")
    (tmp_path / "notes.txt").write_text("no plugin")
    async with running_router() as (router, _):
        assert include_found(router, tmp_path) == ["a", "b"]


async def test_a_directory_that_is_not_there_holds_no_plugins(tmp_path: Path) -> None:
    async with running_router() as (router, _):
        assert include_found(router, tmp_path / "absent") == []


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("def (", id="syntax"),
        pytest.param("import no_such_module", id="import"),
        pytest.param("raise SystemExit(1)", id="exit"),
        pytest.param("def plugin(router):\n    raise ValueError('no')", id="its plugin function"),
        pytest.param(
            "from ksi_daemon.router import handles\n"
            "@handles('no name')\n"
            "async def f(data, ctx): ...",
            id="a handler that cannot be",
        ),
    ],
)
async def test_a_plugin_that_fails_is_logged_and_left_out(tmp_path: Path, source: str) -> None:
    (tmp_path / "bad.py").write_text(source)
    (tmp_path / "good.py").write_text(NOTES)
    async with running_router() as (router, _):
        with capture_logs() as logs:
            assert include_found(router, tmp_path) == ["good"]
        assert [(entry["event"], entry["plugin"]) for entry in logs] == [("plugin_failed", "bad")]
        assert router.registry.names() == ["notes:save"]
