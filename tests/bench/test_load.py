"""The load that the bench makes: both clients against servers whose answers are known."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ksi_daemon.testing import short_directory
from tests.bench.load import Load, compiled, load

Answer = Callable[[bytes], bytes]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with short_directory() as path:
        yield path


@pytest.fixture(scope="module", params=["C", "Python"])
def program(request: pytest.FixtureRequest, folder: Path) -> Path | None:
    if request.param == "Python":
        return None
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc")
    return compiled(folder)


@asynccontextmanager
async def serving(path: Path, answer: Answer, seen: list[bytes]) -> AsyncIterator[None]:
    """Answer each line on *path* with what *answer* says, and note it in *seen*."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            seen.append(line)
            writer.write(answer(line))
        writer.close()

    async with await asyncio.start_unix_server(serve, path):
        yield


async def loaded(
    program: Path | None, path: Path, answer: Answer, *, clients: int, depth: int
) -> tuple[Load, list[bytes]]:
    seen: list[bytes] = []
    async with serving(path, answer, seen):
        options = {"clients": clients, "depth": depth, "seconds": 0.05}
        told = await asyncio.to_thread(load, program, str(path), '{"id":1}', **options)
    return told, seen


@pytest.mark.parametrize(("clients", "depth"), [(1, 1), (1, 64), (50, 1), (3, 7)])
async def test_every_request_is_answered_and_counted(
    program: Path | None, folder: Path, clients: int, depth: int
) -> None:
    told, seen = await loaded(
        program, folder / "s", lambda line: line, clients=clients, depth=depth
    )
    assert told.requests == len(seen) >= clients * depth
    assert set(seen) == {b'{"id":1}\n'}
    assert 0 < told.p50_us <= told.p99_us <= told.p999_us
    assert told.seconds >= 0.05


async def test_a_refusal_is_no_answer(program: Path | None, folder: Path) -> None:
    def refuse(line: bytes) -> bytes:
        return b'{"id":1,"ok":false}\n'

    with pytest.raises((SystemExit, subprocess.CalledProcessError)):
        await loaded(program, folder / "s", refuse, clients=1, depth=1)
