from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest

from ksi_daemon.errors import KsiError
from ksi_daemon.files import FileStore
from ksi_daemon.testing import running_router
from ksi_daemon.transports.mcp import Library


async def test_it_is_loaded_once_however_many_ask(tmp_path: Path) -> None:
    loaded = []
    async with running_router() as (router, _):
        library = Library(router, FileStore(tmp_path))

        async def ask() -> None:
            loaded.append(await library.serving())

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(ask)
    assert len(loaded) == 3
    assert len(set(map(id, loaded))) == 1


async def test_without_the_package_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ksi_daemon.transports.mcp.serving", None)
    async with running_router() as (router, _):
        with pytest.raises(KsiError, match="to serve MCP needs the package mcp") as caught:
            await Library(router, FileStore(tmp_path)).serving()
    assert caught.value.code == "extra_missing"
    assert caught.value.hint == "pip install 'mcp>=2.3,<3'"
